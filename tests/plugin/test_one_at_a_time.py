"""One process measures on a GPU at a time, whatever sessions run on the machine."""

from __future__ import annotations

import sys
import time

from small_project import GPU, figures, stand_in_for_a_gpu

from kernelpin.machine import device_lock


def test_a_worker_waits_until_another_session_has_measured(project):
    measured = stand_in_for_a_gpu(project)
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2), input="x")
    with device_lock(GPU.uuid):
        session = project.pytester.popen(
            [sys.executable, "-m", "pytest", "-p", "no:benchmark"], stdin=None
        )
        until = time.monotonic() + 5
        while time.monotonic() < until:
            assert not measured.exists()
            assert session.poll() is None
            time.sleep(0.2)
    out, _ = session.communicate(timeout=60)
    assert b"1 passed" in out
    assert measured.exists()

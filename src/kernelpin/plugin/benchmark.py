"""pytest-benchmark, where it is installed: timing tests show in its tables with our samples.

It has no hook for foreign samples. `benchmark.pedantic` with a marker's `timer` is public, and a
timer that plays the samples back makes it record them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from kernelpin.plugin.settings import baselines_folder

if TYPE_CHECKING:
    from kernelpin.session import Judgement

FIXTURE = "benchmark"
PLAYBACK: pytest.StashKey[Playback] = pytest.StashKey()


class Playback:
    """A clock that stands still, but for the samples it was given, in seconds."""

    __name__ = "kernelpin"

    def __init__(self) -> None:
        self._samples: Sequence[float] = ()
        self._calls = 0

    def load(self, samples: Sequence[float]) -> None:
        self._samples, self._calls = samples, 0

    def __call__(self) -> float:
        """The start of a round is 0, its end the next sample."""
        round_, is_end = divmod(self._calls, 2)
        self._calls += 1
        return self._samples[round_] if is_end else 0.0


def offer(item: pytest.Item) -> None:
    """Make the test one of pytest-benchmark's, so that its options mean what they say for it."""
    if not item.config.pluginmanager.hasplugin(FIXTURE):
        return
    playback = Playback()
    item.stash[PLAYBACK] = playback
    own = item.get_closest_marker("benchmark")
    options = {**(own.kwargs if own is not None else {}), "timer": playback}
    item.add_marker(pytest.mark.benchmark(**options), append=False)
    if FIXTURE not in item.fixturenames:  # type: ignore[attr-defined]
        # Not in place: the list is shared by all tests of one function.
        item.fixturenames = [*item.fixturenames, FIXTURE]  # type: ignore[attr-defined]


def wanted(item: pytest.Item, judgement: Judgement | None) -> list[str]:
    """The fixtures to set up here: `benchmark` where it gets samples, else none."""
    has_samples = judgement is not None and bool(judgement.seconds)
    return [FIXTURE] if has_samples and PLAYBACK in item.stash else []


def play(item: pytest.Item, judgement: Judgement) -> None:
    """Let pytest-benchmark measure the first process's samples."""
    fixture: Any = getattr(item, "funcargs", {}).get(FIXTURE)
    if fixture is None or PLAYBACK not in item.stash or not judgement.seconds:
        return
    item.stash[PLAYBACK].load(judgement.seconds)
    fixture.extra_info.update(dict(judgement.properties))
    fixture.pedantic(_nothing, rounds=len(judgement.seconds), iterations=1)


def _nothing() -> None:
    """What pytest-benchmark calls between two looks at its clock."""


class MachineInfo:
    """Adds the GPU to pytest-benchmark's machine info: what stays the same from run to run."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_machine_info(
        self, config: pytest.Config, machine_info: dict[str, Any]
    ) -> None:
        # A suite without baselines is none of ours, and compares with what it saved before.
        if not baselines_folder(config).is_dir():
            return
        gpu = gpu_of(config)
        if gpu is not None:
            machine_info["gpu"] = {
                "name": gpu.name,
                "memory_bytes": gpu.memory_bytes,
                "sm_count": gpu.sm_count,
                "mig": gpu.mig,
                "driver": gpu.driver,
                "cuda": gpu.cuda,
                "torch": gpu.torch,
            }


def gpu_of(config: pytest.Config) -> Any:
    """The GPU of this session: the recorded one where results are replayed, else torch's."""
    replay = config.getoption("--kernelpin-replay")
    if replay is not None:
        from kernelpin.workers import read_recorded

        results = (r for each in read_recorded(replay).values() for r in each)
        return next((r.gpu for r in results if r.gpu is not None), None)
    from kernelpin import machine

    return machine.current_gpu()

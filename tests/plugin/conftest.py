"""Fixtures of the plugin's tests."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import scipy.special  # noqa: F401 - numpy cannot be imported again after pytester's clean-up
from small_project import Project

import kernelpin.claims  # `kernelpin.expect` stays, and so must what it is made of
import kernelpin.session  # noqa: F401

if find_spec("torch"):
    # A session inside this process that profiles imports these, and pytester then forgets them; a
    # second import registers their operators again, which torch refuses.
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401


@pytest.fixture
def project(pytester, monkeypatch):
    """A project under pytester whose timing tests are fed recorded results."""
    return Project(pytester, monkeypatch)

"""Fixtures of the plugin's tests."""

from __future__ import annotations

import pytest
import scipy.special  # noqa: F401 - numpy cannot be imported again after pytester's clean-up
from small_project import Project

import kernelpin.session  # noqa: F401


@pytest.fixture
def project(pytester, monkeypatch):
    """A project under pytester whose timing tests are fed recorded results."""
    return Project(pytester, monkeypatch)

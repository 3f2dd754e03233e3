"""How this session's workers are started: as it was itself, less what is its own matter."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kernelpin.workers import Launch


def stand_aside() -> None:
    """Make this process easy to have beside a worker on the GPU: known for kin, its cache empty."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", lambda device: True)
    if not has_context(torch.cuda.current_device()):
        return  # and none shall come of it: the GPU may be in exclusive mode
    from kernelpin.machine import learn_own_pid

    learn_own_pid()
    torch.cuda.empty_cache()


def launch_of(config: pytest.Config) -> Launch:
    """The user's interpreter, folders and options, those from the ini file and environment too."""
    from kernelpin.workers import Launch, forwarded

    arguments = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    positional = config.getoption("file_or_dir") or []
    cwd = config.invocation_params.dir
    # `python -m pytest` puts the working folder on the path, and plain `pytest` does not.
    has_cwd = os.fspath(cwd) in sys.path or "" in sys.path
    return Launch(
        rootdir=config.rootpath,
        cwd=cwd,
        inifile=config.inipath,
        flags=() if has_cwd else ("-P",),
        arguments=forwarded([*arguments, *map(str, config.invocation_params.args)], positional),
    )

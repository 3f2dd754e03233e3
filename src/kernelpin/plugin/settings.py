"""The session's options as data, and what is refused about them."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernelpin.session import Settings

BUDGET_S = 1200.0
_OFF = frozenset({"", "0", "false", "no", "off"})
MERGE_BASE = "merge-base"
MIN_RECORDED = 8


def ci_variable() -> str | None:
    """The variable that says this is a CI run (`CI`), or None; `CI=false` says it is not."""
    return "CI" if os.environ.get("CI", "").strip().lower() not in _OFF else None


def is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def distributes(config: pytest.Config) -> bool:
    """Whether pytest-xdist spreads this session over processes."""
    return is_xdist_worker(config) or bool(config.getoption("tx", None))


def processes(config: pytest.Config) -> int:
    asked: int | None = config.getoption("--kernelpin-processes")
    if asked is not None:
        return asked
    return MIN_RECORDED if config.getoption("--kernelpin-update") == "all" else 1


def budget_s(config: pytest.Config) -> float:
    asked: float | None = config.getoption("--kernelpin-budget")
    return BUDGET_S * max(1, processes(config)) if asked is None else asked


def baselines_folder(config: pytest.Config) -> Path:
    asked: Path | None = config.getoption("--kernelpin-baselines")
    if asked is None:
        return config.rootpath / "baselines"
    return config.invocation_params.dir / asked


def report_folder(config: pytest.Config) -> Path | None:
    asked: Path | None = config.getoption("--kernelpin-report")
    return None if asked is None else config.invocation_params.dir / asked


def folder_named(value: str) -> Path:
    """An option's folder; an empty value would stand for the working folder, which is not meant."""
    if not value.strip():
        raise argparse.ArgumentTypeError(
            f"found the empty value {value!r}, as of a variable that is not set; "
            "name a folder ('.' is the working folder) or leave the option out"
        )
    return Path(value)


def base_ref(config: pytest.Config) -> str | None:
    """The base that suspects are compared with: `merge-base` by default in CI; None: none."""
    asked: str | None = config.getoption("--kernelpin-base")
    if asked is None:
        asked = "none" if ci_variable() is None else MERGE_BASE
        if config.getoption("--kernelpin-base-all"):
            asked = MERGE_BASE
    return None if asked == "none" else asked


def settings_of(config: pytest.Config) -> Settings:
    """The settings that measuring needs."""
    from kernelpin.session import Settings

    return Settings(
        rootdir=config.rootpath,
        baselines=baselines_folder(config),
        processes=processes(config),
        update=config.getoption("--kernelpin-update"),
        add=config.getoption("--kernelpin-add"),
        reason=config.getoption("--kernelpin-reason"),
        base_all=config.getoption("--kernelpin-base-all"),
        report=report_folder(config),
        ci=ci_variable(),
    )


_RUN_NOTHING = (
    ("collectonly", "collect-only"),
    ("setupplan", "setup-plan"),  # which sets the next one too
    ("setuponly", "setup-only"),
    ("showfixtures", "fixtures"),
    ("show_fixtures_per_test", "fixtures-per-test"),
)


def runs_tests(config: pytest.Config) -> bool:
    """Whether test bodies are to run: not to collect them, and not for their fixtures alone."""
    options = ("collectonly", "setuponly", "setupplan")
    return not any(getattr(config.option, name, False) for name in options)


def check(config: pytest.Config) -> None:
    """Refuse options that cannot be meant; UsageError."""
    update = config.getoption("--kernelpin-update")
    variable = ci_variable()
    if variable is not None and config.getoption("--kernelpin-require-gpu"):
        from kernelpin.baselines.collecting import VARIABLE  # set by `kernelpin baselines prune`

        shows = [f"--{name}" for key, name in _RUN_NOTHING if getattr(config.option, key, False)]
        if shows and VARIABLE not in os.environ:
            raise pytest.UsageError(
                f"--kernelpin-require-gpu with {shows[0]}: no test would run, and {variable} would "
                "be green; leave one of them out, on the command line or in the ini file's addopts"
            )
    if update != "none" and variable is not None:
        if config.getoption("--kernelpin-journal") is not None:
            raise pytest.UsageError(
                f"kernelpin record: baselines are read-only where {variable} is set "
                f"({variable}={os.environ[variable]}); where you mean to record, on the machine "
                f"that measures, say {variable}=false kernelpin record …"
            )
        raise pytest.UsageError(
            f"--kernelpin-update={update}: baselines are read-only where {variable} is set "
            f"({variable}={os.environ[variable]}); run with --kernelpin-report=DIR and take in "
            "what it proposes: kernelpin baselines accept DIR/proposed"
        )
    if update != "none" and distributes(config):
        raise pytest.UsageError(
            f"--kernelpin-update={update}: baselines are not recorded beside other tests; "
            "run without -n"
        )
    count = config.getoption("--kernelpin-processes")
    if count is not None and count < 0:
        raise pytest.UsageError(f"--kernelpin-processes={count}: allowed is 0 (in place) or more")
    if count is not None and update != "none" and count < MIN_RECORDED:
        raise pytest.UsageError(
            f"--kernelpin-processes={count}: a baseline needs at least {MIN_RECORDED} processes"
        )
    seconds = config.getoption("--kernelpin-budget")
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise pytest.UsageError(
            f"--kernelpin-budget={seconds:g}: allowed is a finite number of seconds above 0"
        )
    replay = config.getoption("--kernelpin-replay")
    if replay is not None and not replay.is_file():
        raise pytest.UsageError(f"--kernelpin-replay={replay}: there is no such file")

"""What is refused about a session and its timing tests, before any is measured.

Under pytest-xdist only the workers collect, and a usage error there would end as an internal one:
they hand it on, and the process that distributes raises it.
"""

from __future__ import annotations

from typing import Any

import pytest

from kernelpin.plugin.settings import is_xdist_worker, runs_tests
from kernelpin.plugin.timings import case_of, measures

_REFUSED = "kernelpin_refused"
# Of pytest-rerunfailures, pytest-retry and flaky.
_RERUNS = ("reruns", "force_reruns", "retries", "force_flaky")
# The plugins that kernelpin registers, in the session and in its measuring processes.
PARTS = (
    "kernelpin-ending",
    "kernelpin-timings",
    "kernelpin-refusals",
    "kernelpin-traces",
    "kernelpin-gate",
    "kernelpin-machine-info",
)
BENCH = "kernelpin-bench"


class Refusals:
    """Ends a session with a usage error where its timing tests cannot be judged as asked."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        timed = [item for item in session.items if measures(item)]
        if not timed or not runs_tests(self.config):
            return
        try:
            refuse_reruns(self.config, timed)
            for item in timed:
                case_of(item)
        except pytest.UsageError as error:
            if not is_xdist_worker(self.config):
                raise
            self.config.workeroutput[_REFUSED] = str(error)  # type: ignore[attr-defined]
            session.items.clear()

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_testnodedown(self, node: Any) -> None:
        refused = getattr(node, "workeroutput", {}).get(_REFUSED)
        if refused is not None:
            raise pytest.UsageError(refused)


def refuse_parts(config: pytest.Config) -> None:
    """UsageError where a part of kernelpin is blocked: the others would not notice what it does."""
    for name in (*PARTS, BENCH):
        if config.pluginmanager.is_blocked(name):
            raise pytest.UsageError(
                f"-p no:{name}: found a part of kernelpin blocked, and failures would pass "
                "unnoticed; allowed is all of it, or none of it: -p no:kernelpin"
            )


def refuse_reruns(config: pytest.Config, items: list[pytest.Item]) -> None:
    """UsageError where a timing test would be run again: it would roll the dice until it passes."""
    for name in _RERUNS:
        told = _reruns(config, name)
        if told is not None:
            raise pytest.UsageError(
                f"{told}: a timing test that is run again until it passes "
                f"says nothing ({items[0].nodeid} is one); run them without: "
                "suspects are measured again in any case"
            )
    for item in items:
        if item.get_closest_marker("flaky") is not None:
            raise pytest.UsageError(
                f"{item.nodeid}: a timing test may not be marked flaky: one that is run again "
                "until it passes says nothing"
            )


def _reruns(config: pytest.Config, name: str) -> str | None:
    """Where reruns are asked for: an option, or else a setting in the ini file; None: nowhere."""
    asked = config.getoption(name, None)
    if asked is not None and asked is not False:
        return f"--{name.replace('_', '-')}" if asked else None
    try:
        value = config.getini(name)
    except (KeyError, ValueError):
        return None  # no plugin knows it
    if not value or str(value).strip() in ("", "0", "[]"):
        return None
    file = "the ini file" if config.inipath is None else config.inipath.name
    return f"{name} = {value} in {file}"

"""Baselines that no test is checked against.

The test is gone, measures no longer or was skipped; or nobody can read the file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelpin.plugin.benchmark import gpu_of
from kernelpin.plugin.settings import baselines_folder

if TYPE_CHECKING:
    from kernelpin.baselines import Store
    from kernelpin.plugin.silence import Tally


@dataclass(frozen=True, slots=True)
class Stale:
    """`orphans`: ids of entries without a test; `damaged`: what is wrong with a file.

    `unmeasured`: of entries whose test passed and measured nothing; `skipped`: whose test was
    skipped; `uncollected`: whose module was, while it was collected, by the reason.
    """

    orphans: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    uncollected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.orphans or self.damaged or self.unmeasured or self.uncollected)

    @property
    def told(self) -> list[str]:
        """What is said of them, one line each."""
        lines = []
        if self.orphans:
            lines.append(
                f"baselines without a test: {_few(self.orphans)}; renamed? record the new name. "
                "gone? kernelpin baselines prune --yes"
            )
        for why, test_ids in self.uncollected.items():
            lines.append(f"baselines that nothing was compared with: {_few(test_ids)}; {why}")
        if self.unmeasured:
            lines.append(
                f"baselines whose test passed and measured nothing: {_few(self.unmeasured)}; "
                "measure in it with kernelpin's fixture stopwatch, or delete its entry"
            )
        return [*lines, *self.damaged]

    @property
    def passed_over(self) -> list[str]:
        """What is said of the skipped ones."""
        if not self.skipped:
            return []
        return [f"skipped, and not checked against their baselines: {_few(self.skipped)}"]


def _few(ids: tuple[str, ...]) -> str:
    more = len(ids) - 3
    return ", ".join(ids[:3]) + (f" and {more} more" if more > 0 else "")


def was_filtered(config: pytest.Config) -> bool:
    """Whether `--lf` left out tests while it collected; where nothing had failed it does not."""
    return config.pluginmanager.hasplugin("lfplugin-collskip")


def stale(
    config: pytest.Config,
    slug: str | None,
    collected: Collection[str],
    told: Collection[str],
    tally: Tally,
    uncollected: Collection[pytest.CollectReport],
) -> Stale:
    """This GPU's baselines that are stale, as far as this run can know.

    `skipped`: the modules, classes and folders that were, while they were collected.

    `told`: the tests that failed, and so said themselves where their file is damaged. Without a
    `slug` no test has told the GPU; torch is then asked, but only where it matters.
    """
    if not baselines_folder(config).is_dir():
        return Stale()
    from kernelpin.baselines import Store

    store = Store(baselines_folder(config))
    if slug is not None:
        return _of(config, store, slug, collected, told, tally, uncollected)
    found = {
        each: _of(config, store, each, collected, told, tally, uncollected) for each in store.gpus()
    }
    gpu = gpu_of(config) if any(found.values()) else None
    if gpu is not None:
        return found.get(gpu.slug, Stale())
    # What nobody can read is nobody's baseline, on a machine without a GPU too.
    return Stale(damaged=tuple(told for each in found.values() for told in each.damaged))


def _of(
    config: pytest.Config,
    store: Store,
    slug: str,
    collected: Collection[str],
    told: Collection[str],
    tally: Tally,
    uncollected: Collection[pytest.CollectReport],
) -> Stale:
    from kernelpin.baselines import BaselineError

    needed = {f"{Path(nodeid.split('::', 1)[0]).stem}.json" for nodeid in told}
    entries: list[str] = []
    damaged: list[str] = []
    for path in store.files(slug):
        try:
            entries += store.read(path).entries
        except BaselineError as error:
            if path.name not in needed:
                damaged.append(str(error))
    # Links give one test two names.
    known = {_place(config, nodeid) for nodeid in collected}
    modules = {module for module, _ in known}
    orphans = [
        nodeid
        for nodeid in sorted(entries)
        if (place := _place(config, nodeid)) not in known
        and _was_looked_at(config, place[0], modules)
    ]
    # Deleting is no answer there: the tests may well be in the module.
    left_out: dict[str, tuple[str, ...]] = {}
    for nodeid in orphans:
        why = _why_skipped(config, nodeid, uncollected)
        if why is not None:
            left_out[why] = (*left_out.get(why, ()), nodeid)
    hidden = {nodeid for nodeids in left_out.values() for nodeid in nodeids}

    def among(ids: Collection[str]) -> tuple[str, ...]:
        places = {_place(config, nodeid) for nodeid in ids}
        return tuple(nodeid for nodeid in sorted(entries) if _place(config, nodeid) in places)

    return Stale(
        tuple(it for it in orphans if it not in hidden),
        tuple(damaged),
        among(tally.unmeasured),
        among(tally.skipped - tally.ran - tally.expected),
        left_out,
    )


def _why_skipped(
    config: pytest.Config, nodeid: str, skipped: Collection[pytest.CollectReport]
) -> str | None:
    """Say that the module, class or folder of a test was skipped as a whole; None: it was not."""
    from kernelpin.baselines.collecting import skip_reason

    module, name = _place(config, nodeid)
    for report in skipped:
        place, within = _place(config, report.nodeid)
        inside = name.startswith(f"{within}::") if within else place in (module, *module.parents)
        if inside and (place == module or not within):
            why = skip_reason(report)
            return (
                f"{report.nodeid} was skipped while it was collected ({why}): run where it is not"
            )
    return None


def _place(config: pytest.Config, nodeid: str) -> tuple[Path, str]:
    module, _, name = nodeid.partition("::")
    return (config.rootpath / module).resolve(), name


def _was_looked_at(config: pytest.Config, module: Path, known: Collection[Path]) -> bool:
    """Whether this run would have collected the module's tests, were they there."""
    # An argument that names a test says nothing of the others in its module.
    whole = [_resolved(config, str(a)) for a in config.args if "::" not in str(a)]
    if not any(module == place or place in module.parents for place in whole):
        return False
    ignores = config.getoption("ignore", None) or config.getoption("ignore_glob", None)
    return module in known or not ignores


def _resolved(config: pytest.Config, argument: str) -> Path:
    path = (config.invocation_params.dir / argument).resolve()
    if config.getoption("pyargs", False) and not path.exists():
        try:
            found = find_spec(argument)
        except (ImportError, ValueError):
            return path
        if found is not None and found.submodule_search_locations:
            return Path(next(iter(found.submodule_search_locations))).resolve()
        if found is not None and found.origin is not None:
            return Path(found.origin).resolve()
    return path

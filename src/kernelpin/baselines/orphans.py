"""Which stored entries have lost their test, and of which this machine cannot know that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernelpin.baselines.collecting import Collected


@dataclass(frozen=True, slots=True)
class Orphans:
    """One GPU's entries without a test, by what may be said of them.

    `gone`: nowhere; `elsewhere`: not here, and perhaps defined only where that GPU is; `hidden`: by
    the reason why their module was not looked into.
    """

    gone: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    hidden: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def orphans(test_ids: Collection[str], collected: Collected, *, gpu_is_here: bool) -> Orphans:
    """Judge those of one GPU's `test_ids` that are not collected.

    A module may define tests only where `torch.cuda.is_available()`, or parameters for one GPU
    alone: that one is not collected here tells of this machine as much as of the test. A file that
    is gone is gone on every machine.
    """
    gone: list[str] = []
    elsewhere: list[str] = []
    hidden: dict[str, tuple[str, ...]] = {}
    for test_id in sorted(set(test_ids) - collected.ids):
        why = collected.hidden(test_id)
        if not Path(test_id.split("::", 1)[0]).is_file():
            gone.append(test_id)
        elif why is not None:
            hidden[why] = (*hidden.get(why, ()), test_id)
        else:
            (gone if gpu_is_here else elsewhere).append(test_id)
    return Orphans(tuple(gone), tuple(elsewhere), hidden)

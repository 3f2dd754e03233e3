"""The command `kernelpin baselines prune`: what is deleted, what is kept, and why."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelpin.baselines_cli import DEFAULT
from kernelpin.render import count

if TYPE_CHECKING:
    from kernelpin.baselines import Store
    from kernelpin.baselines.orphans import Orphans


def prune(store: Store, args: argparse.Namespace) -> int:
    """Delete the entries whose test is gone (with --yes), and say which are kept: exit code."""
    found, known = _judged(store, args)
    for slug, each in found.items():
        _say_hidden(slug, each.hidden)
    gone = {slug: each.gone for slug, each in found.items() if each.gone}
    kept = {slug: each.elsewhere for slug, each in found.items() if each.elsewhere}
    if not gone and not kept:
        print(f"nothing to prune: no baseline is known to lack its test ({count(known, 'test')})")
        return 0
    for slug, test_ids in gone.items():
        if args.yes:
            store.remove(slug, test_ids)
        verb = "deleted" if args.yes else "would delete"
        print(f"{slug}: {verb} {count(len(test_ids), 'baseline')} without a test")
        _say_each(test_ids)
    if kept:
        here = _gpu_here()[1]
        for slug, test_ids in kept.items():
            what = "baseline whose test is" if len(test_ids) == 1 else "baselines whose tests are"
            print(
                f"{slug}: kept {len(test_ids)} {what} not collected here, and may exist only on "
                f"that GPU (here: {here})"
            )
            _say_each(test_ids)
    if gone and not args.yes:
        print(f"to delete them: {_again(args)} --yes")
    if kept:
        print(
            "to delete what is kept: prune on a machine with that GPU or, if those tests are gone "
            f"there too: {_again(args)} --everywhere --yes"
        )
    return 0 if args.yes and not kept else 1


def _judged(store: Store, args: argparse.Namespace) -> tuple[dict[str, Orphans], int]:
    """What is orphaned of each GPU's entries, and how many tests are known."""
    from kernelpin.baselines.collecting import collect
    from kernelpin.baselines.orphans import Orphans, orphans

    stored = {slug: store.entries(slug) for slug in store.gpus()}
    if args.ids:
        ids = _ids_of(args.ids)
        return {s: Orphans(tuple(sorted(each.keys() - ids))) for s, each in stored.items()}, len(
            ids
        )
    collected = collect({test_id.split("::")[0] for ids in stored.values() for test_id in ids})
    found = {s: orphans(ids, collected, gpu_is_here=args.everywhere) for s, ids in stored.items()}
    # Asking takes torch, and seconds: only where the answer matters.
    if any(each.elsewhere for each in found.values()):
        here = _gpu_here()[0]
        if here in stored:
            found[here] = orphans(stored[here], collected, gpu_is_here=True)
    return found, len(collected.ids)


def _gpu_here() -> tuple[str, str]:
    """The slug of the GPU that tests are collected on here (none: empty), and what it is."""
    from kernelpin import machine

    gpu = machine.current_gpu()
    return ("", f"no GPU, {machine.why_no_gpu()}") if gpu is None else (gpu.slug, gpu.name)


def _again(args: argparse.Namespace) -> str:
    """This command, without what makes it delete."""
    command = ["kernelpin", "baselines", "prune"]
    if args.baselines != DEFAULT:
        command += ["--baselines", str(args.baselines)]
    command += ["--ids", args.ids] if args.ids else []
    return shlex.join([*command, "--everywhere"] if args.everywhere else command)


def _say_hidden(slug: str, hidden: Mapping[str, Sequence[str]]) -> None:
    for why, test_ids in hidden.items():
        print(f"{slug}: kept {count(len(test_ids), 'baseline')}, not judged: {why}")


def _say_each(test_ids: Sequence[str]) -> None:
    print(*(f"  {test_id}" for test_id in test_ids), sep="\n")


def _ids_of(name: str) -> frozenset[str]:
    from kernelpin.baselines import BaselineError

    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BaselineError(
            f"byte {error.object[error.start]:#04x} at offset {error.start} is no text in "
            f"{error.encoding}: give the test ids, one a line (`pytest --collect-only -q`)",
            "stdin" if name == "-" else name,
        ) from None
    ids = frozenset(line.strip() for line in text.splitlines() if "::" in line)
    if not ids:
        # A list that failed to be made must not delete everything.
        raise BaselineError("holds no test id (path::name): nothing is judged by it", name)
    return ids

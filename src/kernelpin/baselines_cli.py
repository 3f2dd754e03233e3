"""The command `kernelpin baselines`: list, diff, prune, accept. Needs no GPU and no torch."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kernelpin.render import count, format_change, format_us, table

if TYPE_CHECKING:
    from kernelpin.baselines import Acceptance, Change, Entry, Store

Entries: TypeAlias = "Mapping[str, Mapping[str, Entry]]"  # by GPU, by test id
Command: TypeAlias = Callable[[argparse.Namespace], int]

DEFAULT = Path("baselines")
_EXIT_CODES = (
    "Exit codes: 0: done; 1: something is refused, differs, or waits for --yes, --everywhere or "
    "--reason; 2: wrong use or a damaged file."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `baselines` with its own commands."""
    parser = subparsers.add_parser(
        "baselines",
        help="list, compare, prune and accept stored baselines",
        description=f"The baselines a project stores for each kind of GPU. {_EXIT_CODES}",
    )
    commands = parser.add_subparsers(dest="baselines_command", required=True, metavar="COMMAND")

    def add(name: str, told: str) -> argparse.ArgumentParser:
        description = f"{told[0].upper()}{told[1:]}. {_EXIT_CODES}"
        return commands.add_parser(name, help=told, description=description)

    listing = add("list", "show what is stored, a table a GPU")
    listing.add_argument("gpu", nargs="*", help="only these, as nvidia-h200")
    listing.set_defaults(func=_guarded(_list))

    diff = add("diff", "compare what is stored with a proposal, or with an earlier commit")
    diff.add_argument(
        "against",
        nargs="?",
        default="HEAD",
        help="a proposed folder or file (stored → proposed), or a git revision "
        "(then → now; default HEAD)",
    )
    diff.set_defaults(func=_guarded(_diff))

    prune = add("prune", "delete the entries whose test is gone")
    prune.add_argument(
        "--ids",
        metavar="FILE",
        help="the ids of all tests on all GPUs, one a line (`pytest --collect-only -q`; - reads "
        "stdin), instead of collecting here: what is not among them is gone",
    )
    prune.add_argument(
        "--everywhere",
        action="store_true",
        help="a test that is not collected here is gone on the GPUs that are not here, too",
    )
    prune.add_argument("--yes", action="store_true", help="delete; else say what would be")
    prune.set_defaults(func=_guarded(_prune))

    accept = add("accept", "take in the baselines that a run proposes")
    accept.add_argument("path", type=Path, help="a report's proposed folder, a GPU's, or one file")
    accept.add_argument("--reason", help="why it got slower: needed where something did")
    accept.set_defaults(func=_guarded(_accept))

    for command in (listing, diff, prune, accept):
        command.add_argument(
            "--baselines",
            type=Path,
            default=DEFAULT,
            metavar="DIR",
            help="where they are stored (default: baselines)",
        )


def _guarded(command: Command) -> Command:
    """An error of the data is one line and exit code 2, no traceback."""

    def run(args: argparse.Namespace) -> int:
        from kernelpin.baselines import BaselineError

        try:
            return command(args)
        except BrokenPipeError:
            raise
        except (BaselineError, OSError) as error:
            print(f"kernelpin: error: {error}", file=sys.stderr)
            return 2

    return run


def _store(args: argparse.Namespace) -> Store:
    from kernelpin.baselines import BaselineError, Store
    from kernelpin.baselines.store import refuse_dangling
    from kernelpin.project import root_of

    folder: Path = args.baselines
    refuse_dangling(folder)
    if folder == DEFAULT and not folder.is_dir():
        here = Path.cwd()
        root = here if (here / ".git").exists() else root_of(here)
        if root != here:
            raise BaselineError(
                f"not in this folder, and pytest keeps them in its rootdir, which is {root}: run "
                "this there, or name the folder with --baselines",
                str(folder),
            )
    if not folder.is_dir() and args.baselines_command != "accept":
        raise BaselineError(
            "no such folder; --baselines names another, and kernelpin record makes it", str(folder)
        )
    return Store(folder)


def _list(args: argparse.Namespace) -> int:
    store = _store(args)
    gpus = store.gpus()
    unknown = [gpu for gpu in args.gpu if gpu not in gpus]
    if unknown or not gpus:
        known = ", ".join(gpus) or "none"
        what = f"no baselines for {', '.join(unknown)}" if unknown else "no baselines"
        print(f"kernelpin: error: {store.folder}: {what}; there are: {known}", file=sys.stderr)
        return 2
    listed: list[Entry] = []
    for slug in args.gpu or gpus:
        entries = store.entries(slug)
        listed += entries.values()
        print(f"{slug}: {count(len(entries), 'baseline')}")
        rows: list[Sequence[str]] = [
            ("test", "metric", "median", "spread", "processes", "recorded", "with", "limit")
        ]
        rows += [(test_id, *_described(entry)) for test_id, entry in entries.items()]
        if all(entry.limit is None for entry in entries.values()):
            rows = [row[:-1] for row in rows]
        print(*(f"  {line}" for line in table(rows)), sep="\n")
    timed = [e for e in listed if e.source == "measured" and e.metric.endswith("_us")]
    if timed:
        print(_limits(own=any(entry.limit is not None for entry in timed)))
    return 0


def _limits(*, own: bool) -> str:
    """The limits that hold for all times but those with their own, which a column would repeat."""
    from kernelpin.verdict import (
        MIN_DIFFERENCE_OTHER_CARD_US,
        MIN_DIFFERENCE_US,
        STORED,
        STORED_SAME_CARD,
    )

    here, elsewhere = (f"{100 * rule.limit:.3g} %" for rule in (STORED_SAME_CARD, STORED))
    return (
        f"a time may grow by {here} on a card that recorded it and by {elsewhere} on another, "
        f"unless its test's marker{' or the column limit' if own else ''} says otherwise; "
        f"under {MIN_DIFFERENCE_US:g} µs, on another card {MIN_DIFFERENCE_OTHER_CARD_US:g} µs a "
        "kernel (a fifth at most), no difference counts"
    )


def _described(entry: Entry) -> tuple[str, ...]:
    limit = "" if entry.limit is None else f"{100 * entry.limit:.3g} %"
    if entry.source == "published":
        band = f"±{entry.band:.0%}".replace("%", " %")
        return entry.metric, _figure(entry), band, "–", "published", entry.cite or "", limit
    dates = sorted({recording.date for recording in entry.recordings})
    versions = sorted({r.torch for r in entry.recordings if r.torch is not None})
    return (
        entry.metric,
        _figure(entry),
        "–" if entry.metric == "counts" else f"{entry.spread * 100:.2f} %",
        str(len(entry.processes) or "–"),
        dates[0] if len(dates) == 1 else f"{dates[0]} … {dates[-1]}",
        "torch " + ", ".join(versions) if versions else "",
        limit,
    )


def _diff(args: argparse.Namespace) -> int:
    from kernelpin.baselines import Change
    from kernelpin.baselines.revision import entries_at

    store = _store(args)
    against = Path(args.against)
    if against.exists():
        old, new, removed = _against_proposed(store, against)
    else:
        old, new = entries_at(store.folder, args.against), _stored(store)
        removed = True
    changes: list[Change] = []
    gone: list[tuple[str, str]] = []
    for slug in sorted(old.keys() | new.keys()):
        before, after = old.get(slug, {}), new.get(slug, {})
        for test_id in sorted(before.keys() | after.keys()):
            was, now = before.get(test_id), after.get(test_id)
            if now is None and removed:
                gone.append((slug, test_id))
            elif now is not None and now != was:
                changes.append(Change(slug, test_id, was, now, ""))
    _print_changes(changes)
    for slug, test_id in gone:
        print(f"removed: {slug}: {test_id}")
    if not changes and not gone:
        print(f"no baseline differs from {args.against}")
    return 1 if changes or gone else 0


def _stored(store: Store) -> Entries:
    return {slug: store.entries(slug) for slug in store.gpus()}


def _against_proposed(store: Store, path: Path) -> tuple[Entries, Entries, bool]:
    from kernelpin.baselines import BaselineError
    from kernelpin.baselines.acceptance import pending_entries, read_proposed

    files = read_proposed(path)
    pending = pending_entries(files)
    if not any(pending.values()) and any(file.entries for file in files):
        held = count(sum(len(file.entries) for file in files), "baseline")
        raise BaselineError(
            f"{path} holds {held} and proposes none: it is a folder of baselines. to compare it "
            f"with a commit: kernelpin baselines diff --baselines {path} REVISION"
        )
    return _stored(store), pending, False


def _prune(args: argparse.Namespace) -> int:
    from kernelpin.pruning import prune

    return prune(_store(args), args)


def _accept(args: argparse.Namespace) -> int:
    from kernelpin.baselines import accept
    from kernelpin.baselines.acceptance import read_proposed

    reason = (args.reason or "").strip() or None
    done = accept(_store(args), read_proposed(args.path), reason=reason)
    _print_changes(done.changes)
    for refusal in done.refusals:
        print(f"refused: {refusal.slug}: {refusal.test_id}: {refusal.why}", file=sys.stderr)
    if done.unchanged:
        print(f"{count(len(done.unchanged), 'baseline')} already stored")
    return _conclude(args, done)


def _conclude(args: argparse.Namespace, done: Acceptance) -> int:
    if done.changes and not done.written:
        print("nothing is accepted yet: these got slower, and need a reason", file=sys.stderr)
        for change in done.asks_reason:
            print(f"  {change.slug}: {change.test_id}", file=sys.stderr)
        again = shlex.quote(str(args.path))
        print(f'next: kernelpin baselines accept {again} --reason "…"', file=sys.stderr)
        return 1
    if done.changes:
        files = ", ".join(str(path) for path in done.written)
        print(f"accepted {count(len(done.changes), 'baseline')} into {files}")
    elif not done.unchanged and not done.refusals:
        print(f"{args.path} proposes nothing", file=sys.stderr)
        return 1
    return 1 if done.refusals else 0


def _print_changes(changes: Iterable[Change]) -> None:
    by_gpu: dict[str, list[Change]] = {}
    for change in changes:
        by_gpu.setdefault(change.slug, []).append(change)
    for slug, those in by_gpu.items():
        rows: list[Sequence[str]] = [("test", "was", "is", "change", "since the first", "verdict")]
        rows += [
            (
                change.test_id,
                "–" if change.old is None else _figure(change.old),
                _figure(change.new),
                _change(change),
                "" if not (change.old and change.drift) else format_change(change.drift),
                change.verdict,
            )
            for change in those
        ]
        if not any(change.verdict for change in those):
            rows = [row[:-1] for row in rows]
        print(slug)
        print(*(f"  {line}" for line in table(rows)), sep="\n")


def _figure(entry: Entry) -> str:
    if entry.metric == "counts":
        return "counts (torch " + ", ".join(sorted(entry.counts or {})) + ")"
    return f"{entry.median:.4g} ×" if entry.metric == "host_ratio" else format_us(entry.median)


def _change(change: Change) -> str:
    if change.ratio is not None:
        return format_change(change.ratio)
    if change.old is None:
        return "new"
    counts = _counts_changed(change.old, change.new)
    if counts:
        return "; ".join(counts)
    if change.old.metric != change.new.metric or change.old.input != change.new.input:
        return "another metric or input"
    return "recorded again"


def _counts_changed(old: Entry, new: Entry) -> list[str]:
    """`torch 2.11: kernels 5 → 6, syncs – → 1`, a version each."""
    found: list[str] = []
    for version in sorted((old.counts or {}).keys() | (new.counts or {}).keys()):
        was, now = (old.counts or {}).get(version), (new.counts or {}).get(version)
        if was == now:
            continue
        if was is None or now is None:
            found.append(f"torch {version}: {'new' if was is None else 'removed'}")
            continue
        names = [name for name in sorted(was.keys() | now.keys()) if was.get(name) != now.get(name)]
        steps = ", ".join(f"{n} {was.get(n, '–')} → {now.get(n, '–')}" for n in names)
        found.append(f"torch {version}: {steps}")
    return found

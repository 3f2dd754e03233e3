"""Check out the base in a git worktree that is removed whatever happens.

The user's own checkout, its index and its HEAD are never touched, and no hook runs. The worktree
lies in the temporary folder under a lock that lasts as long as this process, so that what a killed
process left behind is known for that and removed by the next one.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from kernelpin.base.git import Git, GitError
from kernelpin.trace import KernelpinWarning
from kernelpin.workers.lifeline import ended_by_signals

_SHORT = 10  # digits of a commit that is given in full, as CI systems do
_PREFIX, _LOCK, _TREE = "kernelpin-base-", "lock", "tree"
# Where CI systems name the branch that a pull request goes to.
_TARGETS = (
    "GITHUB_BASE_REF",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
    "CHANGE_TARGET",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH",
    "BITBUCKET_PR_DESTINATION_BRANCH",
    "SYSTEM_PULLREQUEST_TARGETBRANCH",
)
_MAIN = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why there is no base to compare with, and what to do: tests are judged without it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Checkout:
    """The base: `commit` of `ref`, checked out at `root`; the user's checkout is at `head_root`.

    `is_head`: it is the very commit that is compared, which shows how much processes differ.
    """

    ref: str
    commit: str
    root: Path
    head_root: Path
    is_head: bool = False

    def moved(self, path: Path) -> Path:
        """The same place in the base; a path outside of the user's checkout stays what it is."""
        try:
            return self.root / path.resolve().relative_to(self.head_root)
        except ValueError:
            return path


@contextmanager
def checkout(
    folder: Path,
    ref: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    besides: Iterable[Path] = (),
) -> Iterator[Checkout | Unavailable]:
    """Check out `ref` of the repository that holds `folder`; without one, the merge base.

    The merge base is that of HEAD and the branch a CI system says the pull request goes to, else
    the main branch. `besides`: folders whose changes do not make the checkout dirty, such as the
    baselines. Must be entered in the main thread for SIGTERM to remove the worktree as well.
    """
    git = Git(folder, environ)
    try:
        head_root = Path(Git(folder, environ)("rev-parse", "--show-toplevel")).resolve()
        git = Git(head_root, environ)
        _require_clean(git, besides)
        name, commit = _commit(git, ref, environ)
    except GitError as error:
        yield Unavailable(str(error))
        return
    _remove_leftovers(git)
    place: Path | None = None
    with ended_by_signals():
        try:
            place = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
            with FileLock(place / _LOCK):
                try:
                    git("worktree", "add", "--detach", "--quiet", str(place / _TREE), commit)
                except GitError as error:
                    yield Unavailable(f"{name} could not be checked out: {error}")
                else:
                    is_head = commit == git("rev-parse", "HEAD")
                    yield Checkout(name, commit, place / _TREE, head_root, is_head)
        finally:
            if place is not None:
                with _undisturbed():
                    _remove(git, place)


def _require_clean(git: Git, besides: Iterable[Path]) -> None:
    """Untracked files are no part of head either, and as often reports and caches: not asked."""
    excluded = [f":(exclude){path.resolve()}" for path in besides if _is_below(path, git.folder)]
    said = git("status", "--porcelain", "--untracked-files=no", "--", ":/", *excluded)
    changed = [line[3:] for line in said.splitlines()]
    if changed:
        files = ", ".join(changed[:3]) + (", …" if len(changed) > 3 else "")
        raise GitError(
            f"the checkout has uncommitted changes ({files}), so that head is no commit: commit or "
            "stash them to compare with a base"
        )


def _commit(git: Git, ref: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """What to call the base, and its commit."""
    if ref is not None:
        commit = _resolved(git, ref)
        if commit is None:
            raise GitError(f"no commit {ref!r} in this repository{_how_to_fetch(git, ref)}")
        return (commit[:_SHORT] if ref == commit else ref), commit
    wanted = next((environ[name] for name in _TARGETS if environ.get(name)), None)
    wanted = None if wanted is None else wanted.removeprefix("refs/heads/")  # Azure's way
    # The remote's own, since a branch of that name here may be older.
    sought_in = [f"origin/{wanted}", wanted] if wanted else _MAIN
    branch = next((it for it in sought_in if _resolved(git, it)), None)
    if branch is None:
        sought = wanted or ", ".join(_MAIN)
        raise GitError(f"no branch to compare with: no {sought}{_how_to_fetch(git, wanted)}")
    commit = git.knows("merge-base", "HEAD", _resolved(git, branch) or "")
    if commit is None:
        raise GitError(f"HEAD and {branch} have no common commit{_how_to_fetch(git, branch)}")
    if commit == git("rev-parse", "HEAD"):
        raise GitError(f"HEAD is no further than {branch}: there is no change to compare")
    return f"merge base with {branch}", commit


def _resolved(git: Git, ref: str) -> str | None:
    """A CI checkout has the branches of its remote only."""
    if ref.startswith("-"):
        return None
    for name in (ref, f"origin/{ref}"):
        if commit := git.knows("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return commit
    return None


def _how_to_fetch(git: Git, ref: str | None) -> str:
    if git.knows("rev-parse", "--is-shallow-repository") == "true":
        return (
            ", which is a shallow clone: git fetch --unshallow origin (in actions/checkout: "
            "fetch-depth: 0)"
        )
    return f": git fetch origin {ref}" if ref else ""


def _remove_leftovers(git: Git) -> None:
    """Remove what killed processes left; a process that lives holds its lock."""
    for line in (git.knows("worktree", "list", "--porcelain") or "").splitlines():
        place = Path(line.removeprefix("worktree ")).parent
        if not line.startswith("worktree ") or not place.name.startswith(_PREFIX):
            continue
        # One that is not here may well live in another container that shares the repository.
        if (place / _TREE).is_dir():
            try:
                with FileLock(place / _LOCK, timeout=0):
                    _remove(git, place)
            except (Timeout, OSError):
                continue


def _remove(git: Git, place: Path) -> None:
    tree = place / _TREE
    # Twice: also one that the kill of a `git worktree add` left locked.
    git.knows("worktree", "remove", "--force", "--force", str(tree))
    shutil.rmtree(place, ignore_errors=True)
    if place.exists():
        warnings.warn(
            f"the base's worktree could not be removed: git worktree remove --force {tree}",
            KernelpinWarning,
            stacklevel=2,
        )


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait meanwhile: the second Ctrl-C of an impatient user must not leave it behind."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

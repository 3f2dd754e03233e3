"""The baselines as a git revision has them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from kernelpin.baselines.entry import Entry
from kernelpin.baselines.store import is_baseline
from kernelpin.baselines.text import BaselineError, parse


def entries_at(folder: Path, revision: str) -> dict[str, dict[str, Entry]]:
    """The entries under `folder` as committed, by GPU and test id; BaselineError: no such one."""
    # `--end-of-options`: a revision that starts with a dash is none of git's options.
    verify = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", revision)
    commit = verify.decode().strip()
    names = _git(folder, "ls-tree", "-r", "-z", "--name-only", commit, ".")
    found: dict[str, dict[str, Entry]] = {}
    for path in map(Path, filter(None, os.fsdecode(names).split("\0"))):
        if len(path.parts) == 2 and is_baseline(path):
            content = _git(folder, "show", f"{commit}:./{path.as_posix()}")
            file = parse(content, f"{revision}:{folder / path}")
            found.setdefault(path.parts[0], {}).update(file.entries)
    return found


def _git(folder: Path, *command: str) -> bytes:
    done = subprocess.run(["git", *command], cwd=folder, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1] if said else "no such revision, and no such file or folder"
        raise BaselineError(f"git {shlex.join(command)}: {why}")
    return done.stdout

"""git, kept from writing to the user's checkout, running hooks, asking or waiting."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# What a hook that runs the tests sets, and what would make git write to the user's index.
_LOCAL = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"),
)
_CONFIG = (
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)


class GitError(RuntimeError):
    """git refused; the message is its own, on one line."""


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in a folder."""

    folder: Path
    environ: Mapping[str, str]

    def __call__(self, *arguments: str) -> str:
        """What git says, without the last newline; GitError where it fails or is not there."""
        environ = {name: value for name, value in self.environ.items() if name not in _LOCAL}
        # Without optional locks even `git status` leaves the index as it is.
        environ |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
        try:
            done = subprocess.run(
                ["git", *_CONFIG, *arguments],
                cwd=self.folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise GitError(f"git could not be run: {error.strerror}") from None
        if done.returncode != 0:
            said = done.stderr.strip() or f"git {arguments[0]} ended with {done.returncode}"
            raise GitError(" ".join(said.removeprefix("fatal: ").split()))
        return done.stdout.rstrip()

    def knows(self, *arguments: str) -> str | None:
        """As a call, but None where git fails: the question was whether there is such a thing."""
        try:
            return self(*arguments) or None
        except GitError:
            return None

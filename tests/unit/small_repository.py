"""A small repository with a base and a head, and git that heeds nobody's settings."""

from __future__ import annotations

import os
import subprocess

IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
# What the CI system that runs these tests says of its own pull request must not count.
PLAIN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("GITHUB_", "CI_", "GIT_", "CHANGE_", "BUILDKITE_", "PYTHONPATH"))
} | IDENTITY


def git(folder, *arguments, environ=PLAIN):
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def make_repository(tmp_path, monkeypatch):
    """`main` with one commit, `topic` checked out with two more; temporary files lie aside."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    folder = tmp_path / "project"
    (folder / "src" / "pkg").mkdir(parents=True)
    (folder / "perf").mkdir()
    (folder / "src" / "pkg" / "__init__.py").write_text("SPEED = 1\n")
    (folder / "perf" / "test_speed.py").write_text("def test_speed(stopwatch): ...\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "switch", "-q", "-c", "topic")
    for speed in (2, 3):
        (folder / "src" / "pkg" / "__init__.py").write_text(f"SPEED = {speed}\n")
        git(folder, "commit", "-q", "-a", "-m", f"speed {speed}")
    return folder

"""Which commit was measured, as baselines and reports say it."""

from __future__ import annotations

import re
import subprocess

from kernelpin.session import commit_of


def git(folder, *arguments):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_commit_is_told_short_whatever_tags_there_are_and_changed_files_are_owned_up_to(tmp_path):
    git(tmp_path, "init")
    (tmp_path / "module.py").write_text("a = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    git(tmp_path, "tag", "v1.0")
    commit = commit_of(tmp_path)
    assert re.fullmatch("[0-9a-f]{7}", commit)
    (tmp_path / "untracked.json").write_text("{}")
    assert commit_of(tmp_path) == commit
    (tmp_path / "module.py").write_text("a = 2\n")
    assert commit_of(tmp_path) == f"{commit}-dirty"


def test_where_there_is_no_commit_there_is_none_to_tell(tmp_path):
    assert commit_of(tmp_path) is None
    git(tmp_path, "init")
    assert commit_of(tmp_path) is None

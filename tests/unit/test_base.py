"""The base's checkout: a worktree that comes and goes, beside a checkout that nothing touches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from small_repository import PLAIN, git, make_repository

import kernelpin
from kernelpin.base import (
    Checkout,
    Unavailable,
    base_environment,
    checkout,
    foreign_code,
    in_base,
)
from kernelpin.workers import Launch


@pytest.fixture
def repository(tmp_path, monkeypatch):
    return make_repository(tmp_path, monkeypatch)


def state_of(folder):
    """All of a checkout, the index and what git knows of worktrees."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "objects" not in path.parts
    }


def leftovers(folder):
    worktrees = git(folder, "worktree", "list").splitlines()[1:]
    return worktrees + list((folder.parent / "temporary").iterdir())


# -- the worktree ------------------------------------------------------------------------------


def test_base_is_there_while_it_is_needed_and_gone_after(repository):
    with checkout(repository, "main", environ=PLAIN) as base:
        assert isinstance(base, Checkout)
        assert (base.root / "src/pkg/__init__.py").read_text() == "SPEED = 1\n"
        assert base.commit == git(repository, "rev-parse", "main")

    assert leftovers(repository) == []


def test_the_users_checkout_is_not_touched(repository):
    (repository / "untracked.txt").write_text("mine")
    stale = repository / "perf" / "test_speed.py"
    os.utime(stale, ns=(1, 1))  # git would like to refresh its index for this
    before = state_of(repository)

    with checkout(repository, "main", environ=PLAIN) as base:
        (base.root / "src/pkg/__init__.py").write_text("changed by a worker")
        (base.root / "result.txt").write_text("written by a worker")

    assert state_of(repository) == before


def test_no_hook_runs(repository, tmp_path):
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'hooked'}\n")
    hook.chmod(0o755)

    with checkout(repository, "main", environ=PLAIN) as base:
        assert isinstance(base, Checkout)

    assert not (tmp_path / "hooked").exists()


def test_run_from_a_git_hook_it_leaves_the_hooks_index_alone(repository):
    """git tells a hook where its index is, and would take the worktree's for it."""
    before = state_of(repository)
    hook = PLAIN | {
        "GIT_DIR": str(repository / ".git"),
        "GIT_INDEX_FILE": str(repository / ".git" / "index"),
        "GIT_WORK_TREE": str(repository),
    }

    with checkout(repository / "perf", "main", environ=hook) as base:
        assert isinstance(base, Checkout)
        assert (base.root / "perf/test_speed.py").is_file()

    assert state_of(repository) == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_it_is_removed_when_measuring_ends_in_an_error(repository, error):
    with pytest.raises(error), checkout(repository, "main", environ=PLAIN):
        raise error

    assert leftovers(repository) == []


HOLD = """
import signal, sys, tempfile, time
from pathlib import Path
# As in a foreground process: a runner that was started in the background ignores some of them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
tempfile.tempdir = sys.argv[2]
from kernelpin.base import checkout
with checkout(Path(sys.argv[1]), "main") as base:
    print("ready", flush=True)
    time.sleep(60)
"""


def hold(repository):
    """A process that has the base checked out."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(repository), str(repository.parent / "temporary")],
        env=PLAIN,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    assert len(leftovers(repository)) == 2
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_is_removed_when_the_run_is_told_to_end(repository, number):
    with hold(repository) as process:
        process.send_signal(number)
        process.wait(timeout=20)

    assert leftovers(repository) == []


def test_what_a_killed_run_left_the_next_one_removes(repository):
    with hold(repository) as process:
        process.kill()
        process.wait(timeout=20)
    assert len(leftovers(repository)) == 2

    with checkout(repository, "main", environ=PLAIN):
        assert len(leftovers(repository)) == 2  # its own
    assert leftovers(repository) == []


def test_the_worktree_of_a_run_that_lives_stays(repository):
    with hold(repository) as process:
        with checkout(repository, "main", environ=PLAIN):
            assert len(leftovers(repository)) == 4
        assert len(leftovers(repository)) == 2
        process.terminate()
        process.wait(timeout=20)


def test_a_handler_of_ones_own_for_sigterm_stays(repository):
    def mine(*_):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with checkout(repository, "main", environ=PLAIN):
            assert signal.getsignal(signal.SIGTERM) is mine
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


# -- which commit ------------------------------------------------------------------------------


def test_in_ci_the_base_is_the_merge_base_with_the_target_branch(repository, tmp_path):
    fork_point = git(repository, "rev-parse", "main")
    git(repository, "switch", "-q", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "main went on")
    git(repository, "switch", "-q", "topic")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    git(clone, "checkout", "-q", "--detach", "topic")
    git(clone, "branch", "-q", "-D", "topic")

    with checkout(clone, environ=PLAIN | {"GITHUB_BASE_REF": "main"}) as base:
        assert (base.commit, base.ref) == (fork_point, "merge base with origin/main")


def test_a_branch_of_the_targets_name_that_stayed_behind_is_not_the_target(repository, tmp_path):
    """A clone that was made long ago and fetched since: its own main is an older one."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "-b", "main", str(repository), str(clone))
    git(repository, "switch", "-q", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "somebody else's")
    git(clone, "fetch", "-q")
    git(clone, "checkout", "-q", "--detach", "origin/main")
    git(clone, "commit", "-q", "--allow-empty", "-m", "this change")
    with checkout(clone, environ=PLAIN | {"GITHUB_BASE_REF": "main"}) as base:
        assert base.commit == git(repository, "rev-parse", "main")


def test_without_a_ci_system_the_base_is_the_merge_base_with_main(repository):
    with checkout(repository, environ=PLAIN) as base:
        assert base.commit == git(repository, "rev-parse", "main")


def test_a_branch_that_only_the_remote_has_is_found(repository, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(clone))

    with checkout(clone, "main", environ=PLAIN) as base:
        assert base.commit == git(repository, "rev-parse", "main")


def test_head_itself_may_be_named_to_compare_it_with_itself(repository):
    with checkout(repository, "HEAD", environ=PLAIN) as base:
        assert base.commit == git(repository, "rev-parse", "HEAD")
        assert base.is_head
    with checkout(repository, "main", environ=PLAIN) as base:
        assert not base.is_head


# -- no base -----------------------------------------------------------------------------------


def why(folder, ref=None, environ=PLAIN, **options):
    with checkout(folder, ref, environ=environ, **options) as base:
        assert isinstance(base, Unavailable)
        return base.reason


def test_a_commit_given_in_full_is_named_in_short(repository):
    commit = git(repository, "rev-parse", "main")
    with checkout(repository, commit, environ=PLAIN) as base:
        assert (base.ref, base.commit) == (commit[:10], commit)


def test_an_unknown_ref_is_named(repository):
    assert why(repository, "nowhere").startswith("no commit 'nowhere' in this repository")
    assert why(repository, "--all").startswith("no commit '--all'")


def test_a_shallow_clone_is_told_how_to_get_the_rest(repository, tmp_path):
    clone = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", "-b", "topic", repository.as_uri(), str(clone))

    for ref, environ in (("HEAD~1", PLAIN), (None, PLAIN | {"GITHUB_BASE_REF": "main"})):
        reason = why(clone, ref, environ)
        assert "shallow clone" in reason
        assert "fetch-depth: 0" in reason


def test_a_shallow_clone_that_has_both_branches_but_not_where_they_part(repository, tmp_path):
    git(repository, "switch", "-q", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "main went on")
    clone = tmp_path / "shallow"
    git(
        tmp_path,
        *("clone", "-q", "--depth=1", "--no-single-branch", "-b", "topic"),
        *(repository.as_uri(), str(clone)),
    )

    assert "no common commit, which is a shallow clone" in why(clone, None)


def test_uncommitted_changes_are_named(repository):
    (repository / "src/pkg/__init__.py").write_text("SPEED = 4\n")

    assert "uncommitted changes (src/pkg/__init__.py)" in why(repository, "main")


def test_changed_baselines_do_not_make_the_checkout_dirty(repository):
    (repository / "perf/test_speed.py").write_text("changed")

    with checkout(repository, "main", environ=PLAIN, besides=[repository / "perf"]) as base:
        assert isinstance(base, Checkout)


def test_on_the_main_branch_there_is_no_change_to_compare(repository):
    git(repository, "switch", "-q", "main")

    assert why(repository) == "HEAD is no further than main: there is no change to compare"


def test_a_folder_that_is_no_repository_is_said(tmp_path):
    assert "not a git repository" in why(
        tmp_path, "main", PLAIN | {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    )


def test_without_git_it_says_so(repository, tmp_path):
    without = PLAIN | {"PATH": str(tmp_path)}

    assert why(repository, "main", without).startswith("git could not be run")


# -- whose code runs ---------------------------------------------------------------------------


def modules_of(folder):
    """What a process has imported that runs head's code, among others."""

    def module(name, file):
        made = ModuleType(name)
        made.__file__ = file
        return made

    inside = {
        "pkg": str(folder / "src/pkg/__init__.py"),
        "pkg.part": str(folder / "src/pkg/part.py"),
        "built": str(folder / "src/built.so"),  # not in git
        "os": os.__file__,
    }
    return {name: module(name, file) for name, file in inside.items()} | {
        "namespace": ModuleType("namespace")
    }


def test_base_is_run_at_the_same_place_in_its_own_tree(repository):
    (repository / "tox.ini").write_text("[pytest]\n")
    launch = Launch(repository, repository / "perf", repository / "tox.ini")
    with checkout(repository, "main", environ=PLAIN) as base:
        moved = in_base(launch, base, python="other-python")

        assert (moved.rootdir, moved.cwd) == (base.root, base.root / "perf")
        assert moved.inifile is None  # base has none yet, and head's would lead to head
        assert moved.python == "other-python"
        assert base.moved(Path(os.__file__)) == Path(os.__file__)


def test_a_working_folder_that_base_does_not_have_yet_is_its_top(repository):
    (repository / "new").mkdir()
    with checkout(repository, "main", environ=PLAIN) as base:
        assert in_base(Launch(repository, repository / "new"), base).cwd == base.root


def test_what_is_imported_from_head_is_imported_from_base(repository):
    path = [str(repository / "perf"), str(repository / ".venv"), os.path.dirname(os.__file__)]
    environ = PLAIN | {"PYTHONPATH": f"{repository / 'src'}{os.pathsep}elsewhere"}
    with checkout(repository, "main", environ=PLAIN) as base:
        made = base_environment(base, environ, path=path, modules=modules_of(repository))

        assert made["PYTHONPATH"].split(os.pathsep) == [
            str(base.root / "perf"),
            str(base.root / "src"),
            "elsewhere",
        ]


def test_an_editable_installation_of_head_is_outdone(repository, tmp_path):
    """Its finder comes last, so that what PYTHONPATH names is found before."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        textwrap.dedent(f"""
            import importlib.util, sys
            class Editable:
                @staticmethod
                def find_spec(name, path=None, target=None):
                    if name == "pkg":
                        return importlib.util.spec_from_file_location(
                            name, {str(repository / "src/pkg/__init__.py")!r})
            sys.meta_path.append(Editable)
        """)
    )
    environ = PLAIN | {"PYTHONPATH": str(site)}
    modules = modules_of(repository)
    with checkout(repository, "main", environ=PLAIN) as base:
        launch = in_base(Launch(repository, repository), base)
        head_only = foreign_code(base, launch, environ, modules=modules)
        fixed = base_environment(base, environ, path=[], modules=modules)

        assert "base would run head's pkg" in head_only
        assert "--kernelpin-base-python" in head_only
        assert foreign_code(base, launch, fixed, modules=modules) is None
        shown = subprocess.run(
            [sys.executable, "-c", "import pkg; print(pkg.SPEED)"],
            env=fixed,
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout == "1\n"


def test_an_interpreter_that_does_not_run_is_said(repository):
    with checkout(repository, "main", environ=PLAIN) as base:
        launch = in_base(Launch(repository, repository), base, python="no-such-python")
        assert "no-such-python could not be run" in foreign_code(
            base, launch, PLAIN, modules=modules_of(repository)
        )


def test_both_sides_are_measured_by_the_same_kernelpin(monkeypatch, tmp_path):
    root = Path(kernelpin.__file__).resolve().parents[2]
    base = SimpleNamespace(
        head_root=root, root=tmp_path, moved=lambda path: Checkout.moved(base, path)
    )
    (tmp_path / "src").mkdir()

    assert base_environment(base, {}, path=[str(root / "src")], modules={})["PYTHONPATH"] == ""

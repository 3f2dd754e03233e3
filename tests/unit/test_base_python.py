"""Whose code base would run: in its own tree, or as an interpreter has it installed."""

from __future__ import annotations

import importlib.machinery
import os
import site
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from small_repository import PLAIN, git, make_repository

import kernelpin
from kernelpin.base import base_environment, checkout, foreign_code, in_base
from kernelpin.workers import Launch

COMPILED = f"fast{importlib.machinery.EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """`src/pkg` says SPEED = 1 in main and 3 in topic, which is checked out."""
    return make_repository(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def other_python(tmp_path_factory):
    """An interpreter of an environment of its own, in which nothing is installed yet."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


@pytest.fixture
def installed(other_python):
    """The folder that this environment installs into; what is this one's it has as well."""
    (folder,) = other_python.parents[1].glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({place!r})" for place in site.getsitepackages()]
    (folder / "this.pth").write_text("\n".join(lines))
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def module(name, file):
    made = ModuleType(name)
    made.__file__ = str(file)
    return made


def imported(folder, *, compiled=False):
    """What a process that imported head's package from this folder has."""
    found = {"pkg": module("pkg", folder / "pkg/__init__.py")}
    if compiled:
        (folder / "pkg" / COMPILED).touch()
        found["pkg.fast"] = module("pkg.fast", folder / "pkg" / COMPILED)
    return found


def install(speed, folder):
    (folder / "pkg").mkdir()
    (folder / "pkg/__init__.py").write_text(f"SPEED = {speed}\n")


def asked(repository, python=None, *, modules=None, environ=PLAIN, flags=()):
    """Why base would not run its own code; what it says its speed is where it would."""
    modules = imported(repository / "src") if modules is None else modules
    with checkout(repository, "main", environ=PLAIN) as base:
        launch = in_base(
            Launch(repository, repository / "perf", flags=flags), base, python and str(python)
        )
        environ = base_environment(base, environ, path=[], modules=modules)
        why = foreign_code(base, launch, environ, modules=modules)
        if why is not None:
            return why
        shown = subprocess.run(
            [launch.python, *flags, "-c", "import pkg; print(pkg.SPEED)"],
            env=environ,
            cwd=launch.cwd,
            capture_output=True,
            text=True,
            check=True,
        )
        return int(shown.stdout.split()[-1])


# -- an interpreter is named ------------------------------------------------------------------


def test_a_package_that_compiles_is_run_as_the_named_interpreter_has_it(
    repository, other_python, installed
):
    install(1, installed)
    modules = imported(repository / "src", compiled=True)
    environ = PLAIN | {"PYTHONPATH": str(repository / "src")}

    assert asked(repository, other_python, modules=modules, environ=environ) == 1


def test_an_environment_that_lies_in_the_checkout_is_no_code_of_heads(
    repository, other_python, installed
):
    install(1, installed)
    inside = repository / ".venv-base"
    other_python.parents[1].rename(inside)
    try:
        python = inside / "bin" / "python"
        assert asked(repository, python, modules=imported(repository / "src", compiled=True)) == 1
    finally:
        inside.rename(other_python.parents[1])


def test_an_interpreter_with_head_installed_in_place_of_base_is_refused(
    repository, other_python, installed
):
    install(3, installed)

    why = asked(repository, other_python, modules=imported(repository / "src", compiled=True))

    assert f"base would run head's pkg as it is installed ({installed / 'pkg'}" in why


def test_an_interpreter_that_runs_bases_tree_unbuilt_is_refused(
    repository, other_python, installed
):
    install(1, installed)
    with (installed / "a.pth").open("w") as file:
        file.write("import sys, os; sys.path[:0] = [os.path.join(os.getcwd(), '..', 'src')]")

    why = asked(repository, other_python, modules=imported(repository / "src", compiled=True))

    assert why.startswith(f"src/pkg/{COMPILED} is compiled into head's checkout")
    assert f"but base's interpreter {other_python} would run it from " in why
    assert "src/pkg/__init__.py: keep the checkout off its path (pythonpath in the ini file" in why


def test_an_interpreter_in_which_base_is_not_installed_is_refused(
    repository, other_python, installed
):
    why = asked(repository, other_python, modules=imported(repository / "src", compiled=True))

    assert why.endswith(f"but base's interpreter {other_python} has no pkg: install base there")


def test_a_path_means_the_same_from_bases_folder(repository, other_python, installed, monkeypatch):
    install(1, installed)
    modules = imported(repository / "src", compiled=True)

    monkeypatch.chdir(other_python.parents[2])
    assert asked(repository, "venv/bin/python", modules=modules) == 1
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PATH", f"{other_python.parent}{os.pathsep}{os.environ['PATH']}")
    assert asked(repository, "python", modules=modules) == 1


# -- an interpreter that cannot measure -------------------------------------------------------


def test_an_interpreter_that_is_not_there_is_said(repository, tmp_path):
    missing = tmp_path / "bin" / "python"

    assert asked(repository, missing) == (
        f"base's interpreter {missing} could not be run: No such file or directory"
    )


def test_an_interpreter_that_may_not_be_run_is_said(repository, tmp_path):
    file = tmp_path / "python"
    file.write_text("#!/bin/sh\n")

    for path in (file, tmp_path):
        assert asked(repository, path) == (
            f"base's interpreter {path} could not be run: Permission denied"
        )


@pytest.mark.parametrize(
    ("script", "said"),
    [("exit 3", "it said nothing"), ("echo no licence >&2; exit 1", "no licence")],
)
def test_what_is_no_interpreter_is_said_with_its_last_words(repository, tmp_path, script, said):
    file = tmp_path / "python"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)

    assert asked(repository, file) == f"base's interpreter {file} failed: {said}"


def test_an_interpreter_that_gives_no_answer_is_said(repository, tmp_path, monkeypatch):
    monkeypatch.setattr("kernelpin.base.interpreter._PATIENCE_S", 0.2)
    file = tmp_path / "python"
    file.write_text("#!/bin/sh\nexec sleep 20\n")
    file.chmod(0o755)

    assert asked(repository, file) == f"base's interpreter {file} gave no answer in 0.2 s"


def test_an_interpreter_without_pytest_is_said_whatever_was_imported(repository, other_python):
    assert asked(repository, other_python, modules={}) == (
        f"base's interpreter {other_python} has no pytest: install it there, beside base"
    )


def test_an_interpreter_without_kernelpin_is_said(repository, other_python, installed):
    (installed / "this.pth").unlink()
    (installed / "pytest.py").touch()

    assert asked(repository, other_python) == (
        f"base's interpreter {other_python} has no pytest-kernelpin: install it there, beside base"
    )


def test_an_interpreter_with_another_kernelpin_is_refused(repository, other_python, installed):
    info = installed / "pytest_kernelpin-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-kernelpin\nVersion: 9.9\n")

    why = asked(repository, other_python)

    assert f"base's interpreter {other_python} has pytest-kernelpin 9.9, head's " in why
    assert "one stopwatch must measure both sides" in why


def test_what_an_interpreter_prints_as_it_starts_does_not_matter(
    repository, other_python, installed
):
    (installed / "hello.pth").write_text("import sys; sys.stdout.write('hello\\n')")

    assert asked(repository, other_python) == 1


# -- no interpreter is named ------------------------------------------------------------------


def test_a_package_that_is_built_in_heads_checkout_asks_for_an_interpreter(repository):
    modules = imported(repository / "src", compiled=True)
    said = f"src/pkg/{COMPILED} is compiled into head's checkout, and base's tree is not"

    with checkout(repository, "main", environ=PLAIN) as base:
        launch = in_base(Launch(repository, repository), base)
        for path in (base.root / "src", repository / "src", repository / "nowhere"):
            environ = PLAIN | {"PYTHONPATH": str(path)}
            why = foreign_code(base, launch, environ, modules=modules)
            assert why == f"{said}: name an interpreter where base is installed " + (
                "(--kernelpin-base-python)"
            )


def test_what_is_built_of_a_package_that_base_does_not_have_changes_nothing(repository):
    modules = imported(repository / "src")
    other = module("other.fast", repository / "src/other" / COMPILED)

    assert asked(repository, modules={**modules, "other.fast": other}) == 1


@pytest.mark.parametrize("place", ["src", "", "python"])
def test_head_that_is_installed_for_both_is_not_taken_for_base(repository, tmp_path, place):
    if place != "src":
        git(repository, "switch", "-q", "main")
        (repository / place).mkdir(exist_ok=True)
        git(repository, "mv", "src/pkg", f"{place or '.'}/pkg")
        git(repository, "commit", "-q", "-m", "moved")
        git(repository, "switch", "-q", "topic")
    site_packages = tmp_path / "site-packages"
    site_packages.mkdir()
    install(3, site_packages)

    environ = PLAIN | {"PYTHONPATH": str(site_packages)}
    why = asked(repository, modules=imported(site_packages), environ=environ)

    assert "base would run head's pkg as it is installed" in why
    assert "--kernelpin-base-python" in why


def test_what_is_installed_and_no_part_of_the_repository_is_nobodys_matter(repository):
    git(repository, "switch", "-q", "main")
    (repository / "python").mkdir()
    (repository / "python" / "statistics.py").touch()  # one that is never imported
    git(repository, "add", "python")
    git(repository, "commit", "-q", "-m", "statistics")
    git(repository, "switch", "-q", "topic")
    modules = imported(repository / "src") | {"pytest": pytest, "statistics": statistics}

    assert asked(repository, modules=modules) == 1


def test_plain_pytest_does_not_find_what_lies_in_its_folder(repository):
    """It is asked under the flags that a worker has."""
    (repository / "perf" / "pkg.py").write_text("SPEED = 9\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "beside the tests")
    with checkout(repository, "HEAD", environ=PLAIN) as base:
        found = {}
        for flags in ((), ("-P",)):
            launch = in_base(Launch(repository, repository / "perf", flags=flags), base)
            found[flags] = _origin(launch, PLAIN)
        assert found == {(): str(base.root / "perf/pkg.py"), ("-P",): None}


def _origin(launch, environ):
    from kernelpin.base.interpreter import origins

    return origins(launch, environ, ["pkg"])["pkg"]


def test_kernelpin_on_pythonpath_stays_the_one_of_head():
    own = Path(kernelpin.__file__).resolve().parents[1]
    base = type(
        "Base", (), {"root": Path("/base"), "moved": lambda _, it: Path("/base") / it.name}
    )()

    environ = base_environment(base, {"PYTHONPATH": f"{own}:/head/perf"}, path=[], modules={})

    assert environ["PYTHONPATH"] == f"{own}:/base/perf"

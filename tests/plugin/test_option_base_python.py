"""`--kernelpin-base-python`: base is measured by the interpreter of an environment that has it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import figures, stand_in_for_a_gpu, text_of

# What a build would put there: a compiled module under the name that it was compiled for.
_BISECT = importlib.util.find_spec("_bisect")
COMPILED = Path(_BISECT.origin) if _BISECT is not None and _BISECT.has_location else None

pytestmark = pytest.mark.skipif(COMPILED is None, reason="no compiled module to borrow")

SPEED = """
import os
import sys

from speed import _bisect  # compiled

FIGURE = {figure}
with open(os.environ["MEASURED"], "a") as file:
    print(os.getpid(), "imported", FIGURE, "by", sys.prefix, file=file)
"""


def git(folder, *arguments):
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def build(figure, folder):
    """The package as it is built or installed into a folder."""
    (folder / "speed").mkdir(parents=True, exist_ok=True)
    (folder / "speed" / "__init__.py").write_text(SPEED.format(figure=figure))
    shutil.copy(COMPILED, folder / "speed")


@pytest.fixture
def compiled(project):
    """A project that compiles: base takes 41.2 µs, as stored; head, which is built, 45.0 µs."""
    project.measured_by = stand_in_for_a_gpu(project)
    (project.path / "speed.py").unlink()
    project.write(".gitignore", "*.so\n*.pyd\nvenv/\n")
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2), input="x")
    git(project.path, "init", "-q", "-b", "main")
    for figure in (41.2, 45.0):
        build(figure, project.path / "src")
        git(project.path, "add", ".")
        git(project.path, "commit", "-q", "-m", f"{figure} µs")
    # As an editable installation has it.
    project.monkeypatch.setenv("PYTHONPATH", str(project.path / "src"), prepend=os.pathsep)
    return project


def environment(folder):
    """A virtual environment that has what this one has; where it installs into."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({place!r})" for place in site.getsitepackages()]
    (packages / "this.pth").write_text("\n".join(lines))
    return packages


def run(project, *options):
    return project.pytester.run(
        *(sys.executable, "-m", "pytest", "--kernelpin-base=HEAD~1", *options),
        *("-p", "no:hypothesispytest", "-p", "no:benchmark"),
    )


def test_base_is_measured_as_the_interpreter_has_it_installed(compiled):
    build(41.2, environment(compiled.path / "venv"))
    result = run(compiled, "--kernelpin-base-python=venv/bin/python")

    result.assert_outcomes(failed=1)
    assert "slower than HEAD~1: 4" in text_of(result)
    said = [line.split(" ", 1)[1] for line in compiled.measured_by.read_text().splitlines()]
    by_figure = {
        figure: {line.partition(" by ")[2] for line in said if f"imported {figure} " in line}
        for figure in (41.2, 45.0)
    }
    assert by_figure == {41.2: {str(compiled.path / "venv")}, 45.0: {sys.prefix}}


@pytest.mark.parametrize(
    ("python", "why"),
    [
        (None, "is compiled into head's checkout, and base's tree is not: name an interpreter"),
        ("venv/bin/python", "venv/bin/python could not be run: No such file or directory"),
        ("bare/bin/python", "bare/bin/python has no pytest: install it there, beside base"),
    ],
)
def test_without_one_that_can_measure_it_says_why_and_judges_by_what_is_stored(
    compiled, python, why
):
    if python is not None and python.startswith("bare"):
        bare = compiled.path / "bare"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    result = run(compiled, *([f"--kernelpin-base-python={python}"] if python else []))

    result.assert_outcomes(failed=1)
    text = text_of(result)
    assert "slower than the baseline: 4" in text
    (warning,) = [line for line in text.splitlines() if "not compared with a base" in line]
    assert why in warning
    assert "slower than HEAD~1" not in text

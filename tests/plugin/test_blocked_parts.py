"""kernelpin is there as a whole or not at all: a part that is taken out is no green run."""

from __future__ import annotations

import pytest
from small_project import text_of

from kernelpin.plugin.refusals import BENCH, PARTS

CAPTURES = """
import pytest

@pytest.mark.gpu
def test_it(capture_trace): pass
"""


@pytest.mark.parametrize("name", [*PARTS, BENCH])
def test_a_part_that_is_blocked_is_a_usage_error_that_names_it(project, name):
    project.write("test_kernels.py", CAPTURES)
    result = project.run("-p", f"no:{name}", ci=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = f"-p no:{name}: found a part of kernelpin blocked"
    assert said in result.stderr.str()
    assert "allowed is all of it, or none of it: -p no:kernelpin" in result.stderr.str()


def test_every_plugin_that_it_registers_is_such_a_part(project):
    project.write(
        "conftest.py",
        """
def pytest_sessionstart(session):
    names = [name for name, plugin in session.config.pluginmanager.list_name_plugin() if plugin]
    print("registered:", sorted(name for name in names if name.startswith("kernelpin-")))
""",
    )
    text = text_of(project.run("-s"))
    assert f"registered: {sorted(PARTS)}" in text


@pytest.mark.parametrize("hook", ["pytest_sessionstart()", "pytest_runtest_setup()"])
@pytest.mark.parametrize("name", ["kernelpin-gate", "kernelpin-traces"])
def test_a_part_that_a_conftest_unregisters_is_red(project, hook, name):
    project.write("test_kernels.py", CAPTURES.replace("@pytest.mark.gpu", ""))
    project.baseline("test_it", (41.2,) * 8)  # known as a suite of ours, whatever it collects
    project.write(
        "conftest.py",
        f"""
def pytest_configure(config):
    global manager
    manager = config.pluginmanager

def {hook}:
    if manager.hasplugin({name!r}):
        manager.unregister(name={name!r})
""",
    )
    result = project.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert f"{name} was unregistered while the session ran" in (
        text_of(result) + result.stderr.str()
    )


def test_a_suite_that_has_nothing_of_ours_may_do_as_it_likes(project):
    project.write("test_theirs.py", "def test_it(): pass\n")
    project.write(
        "conftest.py",
        "def pytest_sessionstart(session):\n"
        "    session.config.pluginmanager.unregister(name='kernelpin-gate')\n",
    )
    with project.monkeypatch.context() as patch:
        patch.setenv("CI", "true")
        assert project.pytester.runpytest().ret == pytest.ExitCode.OK

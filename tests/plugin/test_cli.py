"""The command `kernelpin` itself: its version, and what it does not know."""

from __future__ import annotations

import importlib.metadata

import pytest

from kernelpin.cli import main


def ended(capsys, *arguments):
    """Exit code, stdout and stderr of a command that ends in the parser."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return (caught.value.code, *capsys.readouterr())


def test_the_version_is_that_of_the_distribution(capsys):
    version = importlib.metadata.version("pytest-kernelpin")
    assert ended(capsys, "--version") == (0, f"kernelpin {version}\n", "")


def test_a_copy_that_is_not_installed_has_no_version(capsys, monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    code, out, _ = ended(capsys, "--version")
    assert (code, out) == (
        0, "kernelpin of unknown version: pytest-kernelpin is not installed here\n"
    )  # fmt: skip


@pytest.mark.parametrize("command", ["show", "baselines", "folds"])
def test_an_unknown_argument_is_told_with_the_usage_of_its_command(capsys, command):
    given = {"show": ["trace.json"], "baselines": ["list"]}.get(command, [])
    code, out, err = ended(capsys, command, *given, "--bogus")
    assert (code, out) == (2, "")
    assert err.startswith(f"usage: kernelpin {command} ")
    assert err.endswith(f"kernelpin {command}: error: unrecognized arguments: --bogus\n")

"""The command `kernelpin` itself: its version, and what it does not know."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from kernelpin.cli import main

ROOT = Path(__file__).parents[2]
TRACES = "fixtures/traces/nvidia-h200"


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


@pytest.mark.parametrize(
    "command",
    [
        f"show {TRACES}/geglu_mlp-64x128x768x3072-eager.json.gz",
        f"show --json {TRACES}/geglu_mlp-64x128x768x3072-eager.json.gz",
        f"diff --json {TRACES}/geglu_mlp-64x128x768x3072-eager.json.gz "
        f"{TRACES}/geglu_mlp-64x128x768x3072-compiled.json.gz",
        "baselines list",
        "folds",
    ],
)
@pytest.mark.parametrize("lines", [0, 1])
def test_a_reader_that_leaves_early_is_no_error(command, lines):
    """As `| head`: with the status that a shell gives to such an end."""
    script = "from kernelpin.cli import main; raise SystemExit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *command.split()],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for _ in range(lines):
        process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert told == b""
    # What is short may have been written before its reader left.
    assert process.wait(timeout=60) in ({141} if lines == 0 else {0, 1, 141})

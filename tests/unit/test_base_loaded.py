"""Which of the modules that a worker of the base imported are head's."""

from __future__ import annotations

import hashlib
import json
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from small_repository import PLAIN, git

from kernelpin.base import checkout, describe
from kernelpin.base.loaded import VARIABLE, HeadsCode, Loaded, loaded

HEADS = b"FIGURE = 45\n"


@pytest.fixture
def at(tmp_path, monkeypatch):
    """A file below the folder of the test, as head has it unless another content is given."""
    monkeypatch.chdir(tmp_path)

    def write(name, content=HEADS):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    return write


def told(tmp_path, rebuilt=False, changed=("src/fast/model.py",)):
    sha = hashlib.sha256(HEADS).hexdigest()
    files = {Path(name).name: [(name, sha)] for name in changed}
    return HeadsCode(str(tmp_path / "head"), str(tmp_path / "base"), files, rebuilt)


def module(name, file):
    made = ModuleType(name)
    made.__file__ = None if file is None else str(file)
    return {name: made}


@pytest.mark.parametrize(
    ("name", "file", "why"),
    [
        ("fast.model", "head/src/fast/model.py", "base ran head's fast.model"),
        ("extra", "head/vendored/extra.py", "base ran head's extra"),
        ("fast.model", "env/site-packages/fast/model.py", "as it is installed"),
        ("fast.model", "head/.site/fast/model.py", "as it is installed"),
        ("ns.fast.model", "env/ns/fast/model.py", "as it is installed"),
    ],
)
def test_what_is_heads_is_told(at, tmp_path, name, file, why):
    at("head/.site/numpy-2.0.dist-info/METADATA", b"")
    found = Loaded(told(tmp_path)).foreign(module(name, at(file)))
    assert found is not None
    assert why in found
    assert str(tmp_path / file) in found
    assert "--kernelpin-base-python" in found


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("fast.model", "base/src/fast/model.py", b"FIGURE = 41\n"),
        ("fast.model", "env/site-packages/fast/model.py", b"FIGURE = 41\n"),  # as base has it
        ("other.model", "env/site-packages/other/model.py", HEADS),  # another package's
        ("numpy", "head/.site/numpy/__init__.py", b""),
        ("numpy", "head/.venv/lib/python3.12/site-packages/numpy/__init__.py", b""),
        ("json", "head/json.py", HEADS),  # the standard library's name
        ("kernelpin.cli", "head/src/kernelpin/cli.py", HEADS),  # both sides' stopwatch
        ("builtin", None, b""),
    ],
)
def test_what_is_not_heads_is_not(at, tmp_path, name, file, content):
    at("head/.site/numpy-2.0.dist-info/METADATA", b"")
    path = None if file is None else at(file, content)
    assert Loaded(told(tmp_path)).foreign(module(name, path)) is None


def test_what_was_found_once_stays_and_what_comes_later_is_found(at, tmp_path):
    asked = Loaded(told(tmp_path))
    modules = module("a", at("base/a.py"))
    assert asked.foreign(modules) is None
    modules |= module("b", at("head/b.py"))
    assert "head's b " in asked.foreign(modules)
    assert "head's b " in asked.foreign({})


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_compiled_module_is_heads_where_it_was_installed_from_there(
    at, tmp_path, monkeypatch, rebuilt
):
    """Unless head changed nothing that it is made of."""
    name = f"fast_cuda{EXTENSION_SUFFIXES[0]}"
    file = at(f"env/{name}", b"\x7fELF")
    url = json.dumps({"url": (tmp_path / "head").as_uri(), "dir_info": {}}).encode()
    at("env/fast-1.0.dist-info/direct_url.json", url)
    at("env/fast-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: fast\nVersion: 1.0\n")
    at("env/fast-1.0.dist-info/RECORD", f"{name},,\n".encode())
    monkeypatch.syspath_prepend(tmp_path / "env")
    found = Loaded(told(tmp_path, rebuilt)).foreign(module("fast_cuda", file))
    assert (found is not None) == rebuilt
    if rebuilt:
        assert "base ran fast_cuda as head compiled it" in found


def test_head_is_described_by_what_it_changed(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    (repository / "same.py").write_text("a = 1\n")
    (repository / "model.py").write_text("FIGURE = 41\n")
    (repository / "gone.py").write_text("b = 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "base")
    (repository / "model.py").write_bytes(HEADS)
    (repository / "gone.py").unlink()
    (repository / "größe.py").write_bytes(HEADS)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "head")
    with checkout(repository, "main~1", environ=PLAIN) as base:
        environ = describe(base, PLAIN)
        told = msgspec.json.decode(Path(environ[VARIABLE]).read_bytes(), type=HeadsCode)
        asked = loaded(environ)
        assert asked.foreign(module("model", base.root / "model.py")) is None
        assert asked.foreign(module("model", repository / "model.py")) is not None
    sha = hashlib.sha256(HEADS).hexdigest()
    assert told.changed == {"model.py": [("model.py", sha)], "größe.py": [("größe.py", sha)]}
    assert not told.rebuilt
    assert not Path(environ[VARIABLE]).exists()  # it goes with the worktree


def test_a_change_of_what_is_compiled_is_told(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "base")
    (repository / "kernel.cu").write_text("// faster\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "head")
    with checkout(repository, "main~1", environ=PLAIN) as base:
        environ = describe(base, PLAIN)
        assert msgspec.json.decode(Path(environ[VARIABLE]).read_bytes(), type=HeadsCode).rebuilt


def test_a_worker_of_heads_own_is_not_asked():
    assert loaded({}) is None
    assert VARIABLE not in os.environ

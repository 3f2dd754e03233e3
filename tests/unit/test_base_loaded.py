"""Which of the modules that a worker of the base imported are head's."""

from __future__ import annotations

import hashlib
import json
import os
import sys
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


SHA = hashlib.sha256(HEADS).hexdigest()
EMPTY = hashlib.sha256(b"").hexdigest()
TRACKED = frozenset({"src/fast/model.py", "vendored/extra.py", "json.py", "src/kernelpin/cli.py"})
CHANGED = {
    "src/fast/model.py": SHA,
    "src/ns/fast/model.py": SHA,
    "src/fastops.py": SHA,
    "tests/_internal/__init__.py": EMPTY,
    "src/utils/__init__.py": EMPTY,
}


def told(tmp_path, rebuilt=False, prefix=sys.prefix):
    folders = str(tmp_path / "head"), str(tmp_path / "base")
    return HeadsCode(*folders, TRACKED, CHANGED, rebuilt, prefix)


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
        ("fastops", "env/site-packages/fastops.py", "as it is installed"),
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
        ("torch.testing._internal", "env/torch/testing/_internal/__init__.py", b""),
        ("utils", "env/utils/__init__.py", b""),  # empty files are all alike
        ("inductor.cabc", "head/.cache/inductor/ab/cabc.py", HEADS),  # generated: not in git
        ("_sysconfigdata__linux", "head/.pixi/lib/python3.12/_sysconfigdata__linux.py", b"1"),
        ("fast.model", "gone/fast/model.py", None),  # as a module of a zip has no file
        ("json", "head/json.py", HEADS),  # the standard library's name
        ("kernelpin.cli", "head/src/kernelpin/cli.py", HEADS),  # both sides' stopwatch
        ("builtin", None, b""),
    ],
)
def test_what_is_not_heads_is_not(at, tmp_path, name, file, content):
    at("head/.site/numpy-2.0.dist-info/METADATA", b"")
    path = None if file is None else tmp_path / file if content is None else at(file, content)
    assert Loaded(told(tmp_path)).foreign(module(name, path)) is None


def test_what_was_found_once_stays_and_what_comes_later_is_found(at, tmp_path):
    asked = Loaded(told(tmp_path))
    modules = module("a", at("base/a.py"))
    assert asked.foreign(modules) is None
    modules |= module("extra", at("head/vendored/extra.py"))
    assert "head's extra " in asked.foreign(modules)
    assert "head's extra " in asked.foreign({})


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
    # In an environment of base's own it is what was installed there from the same folder.
    own = told(tmp_path, rebuilt, prefix="/another")
    assert Loaded(own).foreign(module("fast_cuda", file)) is None


@pytest.mark.parametrize("mark", [None, "pyvenv.cfg", "conda-meta/history", "x-1.dist-info/RECORD"])
@pytest.mark.parametrize("folder", ["head/", "head/env/lib/"])
def test_a_module_compiled_into_the_checkout_is_heads_but_for_an_environments(
    at, tmp_path, mark, folder
):
    """What lies at the checkout's top makes no environment of all that is in it."""
    file = at(f"{folder}fast_cuda{EXTENSION_SUFFIXES[0]}", b"\x7fELF")
    if mark:
        at(f"{'head' if folder == 'head/' else 'head/env'}/{mark}")
    found = Loaded(told(tmp_path, rebuilt=True)).foreign(module("fast_cuda", file))
    is_environment = mark is not None and folder != "head/"
    assert (found is None) == is_environment


def test_with_an_interpreter_of_its_own_the_advice_is_another(at, tmp_path):
    asked = Loaded(told(tmp_path, prefix="/another"))
    found = asked.foreign(module("fast.model", at("env/site-packages/fast/model.py")))
    assert found.endswith("install base there, and not head")


def test_head_is_described_by_what_it_changed(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    (repository / "same.py").write_text("a = 1\n")
    (repository / "model.py").write_text("FIGURE = 41\n")
    (repository / "gone.py").write_text("b = 1\n")
    (repository / "moved.py").write_text("c = 1\n" * 9)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "base")
    (repository / "model.py").write_bytes(HEADS)
    (repository / "gone.py").unlink()
    (repository / "größe.py").write_bytes(HEADS)
    (repository / "moved.py").rename(repository / "elsewhere.py")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "head")
    with checkout(repository, "main~1", environ=PLAIN) as base:
        environ = describe(base, PLAIN)
        told = msgspec.json.decode(Path(environ[VARIABLE]).read_bytes(), type=HeadsCode)
        asked = loaded(environ)
        assert asked.foreign(module("model", base.root / "model.py")) is None
        assert asked.foreign(module("model", repository / "model.py")) is not None
    assert told.changed == {"model.py": SHA, "größe.py": SHA}
    assert told.tracked == {"model.py", "größe.py", "same.py", "elsewhere.py"}
    assert told.prefix == sys.prefix
    assert not Path(environ[VARIABLE]).exists()  # it goes with the worktree


@pytest.mark.parametrize(
    ("name", "rebuilt"),
    [
        ("kernel.cu", True),
        ("csrc/shared.inl", True),
        ("meson.build", True),
        ("README.md", False),
        ("tests/test_model.py", False),
        ("baselines/nvidia-h200/test_timings.json", False),
    ],
)
def test_only_beside_the_code_a_change_compiles_nothing(tmp_path, name, rebuilt):
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "base")
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text("another\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "head")
    with checkout(repository, "main~1", environ=PLAIN) as base:
        environ = describe(base, PLAIN)
        told = msgspec.json.decode(Path(environ[VARIABLE]).read_bytes(), type=HeadsCode)
    assert told.rebuilt == rebuilt


def test_a_worker_of_heads_own_is_not_asked():
    assert loaded({}) is None
    assert VARIABLE not in os.environ

"""What the code is that a recording measures, as bytes to be hashed: another code, other bytes.

Only what costs seconds at most to find out, and is certain: code that lies elsewhere may change
unseen, so that the figures themselves are compared as well (`kernelpin.verdict.disagreement`).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kernelpin.project import root_of

# Contents are read up to here; of what is larger, and of all beyond, size and time must do.
_READ_BYTES = 64_000_000
# A folder on PYTHONPATH may be as large as a disk; the project's own is looked through whole.
_MOST_FILES = 20_000


def state_of_code(*written: Path) -> Iterator[bytes]:
    """That of the working folder's repository, of PYTHONPATH, and of what is installed.

    `written`: folders that measuring itself writes to.
    """
    seen: set[Path] = set()
    yield from _code(Path.cwd(), seen, written)
    for folder in sorted({*_on_path(), *_editable()}):
        yield os.fsencode(folder)
        yield from _code(folder, seen, written, _MOST_FILES)
    yield from _installed()


def _on_path() -> Iterator[Path]:
    for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if entry and Path(entry).is_dir():
            yield Path(entry).resolve()


def _editable() -> Iterator[Path]:
    """The source folders of editable installations."""
    for found in importlib.metadata.distributions():
        try:
            told = json.loads(found.read_text("direct_url.json") or "{}")
            url = urlsplit(told.get("url", ""))
            is_editable = told.get("dir_info", {}).get("editable", False)
        except (ValueError, AttributeError):
            continue
        folder = Path(url2pathname(url.path))
        if is_editable and url.scheme == "file" and folder.is_dir():
            yield folder.resolve()


def _code(
    place: Path, seen: set[Path], written: tuple[Path, ...], most: int | None = None
) -> Iterator[bytes]:
    """What the code is: commit, changes and untracked files; without git, the .py files.

    Not the baselines: a recording writes them itself, and its journal gives the same figures again
    (which are not stored twice). `seen`: folders that were told, and need not be again.
    """
    top = _git("rev-parse", "--show-toplevel", folder=place)
    if top is not None:
        folder = Path(os.fsdecode(top.removesuffix(b"\n")))
        if folder in seen:
            return
        commit = _git("rev-parse", "HEAD", folder=folder)
        touched = _git("diff", "--name-only", "--no-renames", "-z", "HEAD", folder=folder)
        others = _git("ls-files", "-z", "-o", "--exclude-standard", folder=folder)
        if commit is not None and touched is not None and others is not None:
            own = [name for name in _names(touched) if _is_baseline(folder, name)]
            but = [f":(exclude,top,literal){name}" for name in own]
            # Of a submodule what is changed in it, too.
            shown = ("diff", "--no-ext-diff", "--submodule=diff", "HEAD", "--", ":(top)", *but)
            changes = _git(*shown, folder=folder)
            if changes is not None:
                seen.add(folder)
                yield from (commit, changes)
                yield from _contents(
                    folder / name
                    for name in sorted(_names(others))
                    # Compiled files come of the recording itself, as baselines do.
                    if not (name.endswith(".pyc") or _is_baseline(folder, name))
                    and not {*written} & {*(folder / name).parents[: name.count("/")]}
                )
                return
    root = root_of(place) if most is None else place
    if root not in seen:
        seen.add(root)
        yield from _contents(islice(_modules(root), most))


def _names(listed: bytes) -> list[str]:
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def _is_baseline(folder: Path, name: str) -> bool:
    """Whether it is, or before it was deleted was, a file of baselines that this plugin wrote."""
    from kernelpin.baselines.store import is_baseline
    from kernelpin.baselines.text import BaselineError, parse
    from kernelpin.trace import slugify

    path = folder / name
    if not is_baseline(path):
        return False
    try:
        content: bytes | None = path.read_bytes() if path.exists() else None
    except OSError:
        return False
    if content is None:
        content = _git("show", f"HEAD:{name}", folder=folder)
    try:
        return content is not None and slugify(parse(content, name).device.name) == path.parent.name
    except BaselineError:
        return False


def _installed() -> Iterator[bytes]:
    """Every installed distribution: where, which version, and the hashes of its files."""
    found = importlib.metadata.distributions()
    told = (f"{it.locate_file('')} {it.version} {it.read_text('RECORD')}" for it in found)
    yield from (text.encode(errors="replace") for text in sorted(set(told)))


def _modules(root: Path) -> Iterator[Path]:
    """The .py files below, but for hidden folders and virtual environments."""
    for folder, below, files in os.walk(root):
        if "pyvenv.cfg" in files:
            below.clear()
            continue
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def _contents(files: Iterable[Path]) -> Iterator[bytes]:
    """Each file's path and content, or its size and time once `_READ_BYTES` are read."""
    left = _READ_BYTES
    for file in files:
        yield os.fsencode(file)
        try:
            stat = file.stat()
            if file.is_file() and stat.st_size <= left:
                left -= stat.st_size
                yield hashlib.sha256(file.read_bytes()).digest()
            else:
                yield f"{stat.st_size} {stat.st_mtime_ns}".encode()
        except OSError as error:
            yield type(error).__name__.encode()


def _git(*arguments: str, folder: Path | None = None) -> bytes | None:
    """What git says there; None where there is no git, no repository or no answer."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None

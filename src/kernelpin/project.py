"""Where a project lies, as far as files tell; pytest itself is not asked."""

from __future__ import annotations

from pathlib import Path

_INI_FILES = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "setup.py")


def root_of(folder: Path) -> Path:
    """The nearest folder at or above this one that configures pytest, else this one."""
    for candidate in (folder, *folder.parents):
        if any((candidate / name).is_file() for name in _INI_FILES):
            return candidate
    return folder

"""Paths as flags take them and as output shows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


class FolderType(click.ParamType[Path]):
    """A folder, which need not be there. Not an empty text: that is a shell variable that nobody set."""

    name = "directory"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not os.fspath(value) or "\x00" in os.fspath(value):
            self.fail(f"got {value!r}, expected the path of a folder", param, ctx)
        path = Path(value)
        if path.exists() and not path.is_dir():
            self.fail(f"got {value!r}, which is a file, expected a folder", param, ctx)
        return path


FOLDER = FolderType()


def shown(path: Path) -> str:
    """A path so that it can be pasted: a relative one begins with ``./``."""
    return str(path) if path.is_absolute() or path.parts[:1] == ("..",) else f"./{path}"

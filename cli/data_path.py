"""Where a command's data folder is, and its other paths; without the parser of command lines, which a command may do without."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any


def expanded(given: Any) -> Any:
    """Return what a command line gives, with the home folder in the place of a `~` at the beginning of each path.

    Raises:
        ValidationError: It is the home of nobody.
    """
    if isinstance(given, Path):
        if not str(given).startswith("~"):
            return given
        from ..runtime.disk.private_folder import at_home

        return at_home(given)
    if isinstance(given, (tuple, list)):
        return type(given)(map(expanded, given))
    if is_dataclass(given) and not isinstance(given, type):
        fields = vars(given)
        changed = {name: each for name, was in fields.items() if (each := expanded(was)) is not was}
        return replace(given, **changed)
    return given


def named_data_path(data: Path | None, environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of `data_path` without a check, for `doctor`, which says what is wrong with it."""
    from ..config.files import data_folder

    return (data or data_folder(environ)).absolute()


def data_path(data: Path | None, environ: Mapping[str, str] | None = None) -> Path:
    """Return the data folder that the option names, or else the user's own, by `environ` if given.

    Raises:
        ValidationError: There can be no such folder, because what it is in, or it itself, is a file.
    """
    path = named_data_path(data, environ)
    found = next((each for each in (path, *path.parents) if os.path.lexists(each)), path)
    if found.exists() and not found.is_dir():
        from ..runtime.errors import ValidationError

        raise ValidationError(
            f"{path} can't be the data folder: {found} is not a folder. Choose another with --data.",
            field="data",
        )
    return path

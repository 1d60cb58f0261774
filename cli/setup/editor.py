"""What a person changes as TOML: in their editor, or from a file."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ...runtime.errors import StorageError, ValidationError


def read_text(file: Path) -> tuple[str, Path]:
    """Return the text of a file, or with `-` of stdin, and what it is called in errors."""
    if str(file) == "-":
        return sys.stdin.read(), Path("stdin")
    try:
        return file.read_text(), file
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{file} can't be read: {error}") from error


def edited(text: str, name: str) -> tuple[str, Path, Path]:
    """Return the text as a person's editor left it, its file, and the folder that was made for it."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValidationError(f"the editor's command {command!r} can't be read: {error}") from None
    if not words:
        raise ValidationError(
            "VISUAL and EDITOR name no editor: set one, or pass --file with the fields as TOML."
        )
    folder = Path(tempfile.mkdtemp(prefix="callboard.edit-"))
    path = folder / f"{name}.toml"
    path.write_text(text)
    try:
        code = subprocess.run([*words, str(path)], check=False).returncode
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ValidationError(f"{words[0]} can't be started: {error.strerror or error}") from error
    if code:
        shutil.rmtree(folder, ignore_errors=True)
        raise ValidationError(f"{words[0]} ended with {code}: nothing was changed.")
    return *read_text(path), folder

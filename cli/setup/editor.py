"""What a person changes as TOML: in their editor, or from a file."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ...runtime.errors import CallboardError, StorageError, ValidationError


def read_text(file: Path) -> tuple[str, Path]:
    """Return the text of a file, or with `-` of stdin, and what it is called in errors."""
    if str(file) == "-":
        return sys.stdin.read(), Path("stdin")
    try:
        return file.read_text(), file
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{file} can't be read: {error}") from error


@contextmanager
def new_text(
    before: str, name: str, file: Path | None, command: str
) -> Generator[tuple[str, Path]]:
    """Give the text of a file, or as an editor left it, and what it is called in errors.

    An edited text that the block refuses is kept, and the error says where.

    Args:
        before: What the editor shows.
        name: Whose fields they are.
        file: The file; `None` is the editor.
        command: The command, as in `callboard schedule edit`, that takes a file.
    """
    if file is not None:
        yield read_text(file)
        return
    text, place, folder = _edited(before, name)
    try:
        yield text, place
    except CallboardError as error:
        kept = f"Your text is in {place}: `{command} {name} --file {place}` tries again."
        raise type(error)(f"{error} {kept}") from error
    shutil.rmtree(folder, ignore_errors=True)


def _edited(text: str, name: str) -> tuple[str, Path, Path]:
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

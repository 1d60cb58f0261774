"""What a person says of an agent, a schedule or a hook: by options, or as TOML in a file or their editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ...config.validation import explained
from ...runtime.errors import CallboardError, StorageError, ValidationError
from ..run.flags import budget_of

Kind = TypeVar("Kind")


def of_options(kind: type[Kind], fields: Mapping[str, Any], *words: str) -> Kind:
    """Return what the options of a command say.

    Args:
        kind: An agent, a schedule or a hook.
        fields: Its fields; `None` is what is not said.
        words: The fields that are said by words, not by options.

    Raises:
        ValidationError: It can't be; the message names the option.
    """
    given = {field: value for field, value in fields.items() if value is not None}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        inner, problem = explained(str(error), kind)
        field = inner[0] if inner else ""
        option = field.upper() if field in words else f"--{field.replace('_', '-')}"
        said = problem.replace("`", "")
        raise ValidationError(f"{option}: {said}. Nothing was made.", field=field) from error


def budget_fields(text: str | None) -> dict[str, Any] | None:
    """Return the fields of what `--budget` says; raise `ValidationError`."""
    try:
        budget = None if text is None else budget_of(text)
    except ValueError as error:
        raise ValidationError(f"--budget: {error}. Nothing was made.", field="budget") from None
    if budget is None:
        return None
    return {
        name: amount
        for name, amount in msgspec.structs.asdict(budget).items()
        if amount is not None
    }


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

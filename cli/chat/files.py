"""Files that go with a prompt: named by `@path`, dropped on the terminal, or an image from the clipboard."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import trio

from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.history import MAX_ATTACHED_BYTES, Attachment, media_type_of

_MENTION = re.compile(r"(?<!\S)@(\"[^\"]+\"|\S+)")
_DROPPED = re.compile(r"(?<!\S)(?:'[^']+'|\"[^\"]+\"|(?:\\.|[^\s'\"\\])+)")
_AFTER = ".,;:!?)]}'"
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")

CLIPBOARD_SECONDS = 5.0
"""How long a program may take to say what is on the clipboard: it asks another one."""
_APPLE_PNG = re.compile(rb"data PNGf((?:[0-9A-Fa-f]{2})+)")
"""How osascript prints an image."""


def mentioned(text: str, folder: Path) -> list[Path]:
    """Return the files that a prompt names, each once; a word that names none is a word."""
    found = [*_by_sign(text, folder), *_dropped(text)]
    return list(dict.fromkeys(path.resolve() for path in found))


def is_dropped_file(text: str) -> bool:
    """Return whether a line that begins with a slash begins with the path of a picture, and is no command."""
    first = _DROPPED.match(text)
    return first is not None and any(_dropped(first[0]))


def _by_sign(text: str, folder: Path) -> Iterator[Path]:
    for mention in _MENTION.finditer(text):
        name = mention[1].strip('"')
        for each in dict.fromkeys((name, name.rstrip(_AFTER))):
            if each and (path := folder / Path(each).expanduser()).is_file():
                yield path
                break


def _dropped(text: str) -> Iterator[Path]:
    for word in _DROPPED.finditer(text):
        if not word[0].lower().rstrip("'\"").endswith(_PICTURES):
            continue
        try:
            name = "".join(shlex.split(word[0]))
        except ValueError:
            continue
        if name.startswith("file://"):
            name = unquote(name.removeprefix("file://"))
        if name.startswith(("/", "~/")) and (path := Path(name).expanduser()).is_file():
            yield path


async def clipboard_image(environ: Mapping[str, str]) -> Attachment:
    """Return the image on the clipboard, from the program that this desktop has for it.

    Raises:
        NotFoundError: There is no image, or no program.
        ValidationError: It is too large.
    """
    wanted = _clipboard_programs(environ)
    for name, *options in wanted:
        path = shutil.which(name, path=environ.get("PATH"))
        if path is not None and path.startswith(
            "/"
        ):  # nothing of the folder that the chat works in
            data = await _printed([path, *options])
            if name == "osascript":
                found = _APPLE_PNG.search(data)
                data = b"" if found is None else bytes.fromhex(found[1].decode())
            if len(data) > MAX_ATTACHED_BYTES:
                raise ValidationError(
                    f"the image on the clipboard has more than {MAX_ATTACHED_BYTES} bytes"
                )
            kind = media_type_of(data) or ""
            if not kind.startswith("image/"):
                raise NotFoundError("there is no image on the clipboard")
            return Attachment(kind, data, name=f"clipboard.{kind.removeprefix('image/')}")
    programs = " or ".join(dict.fromkeys(name for name, *_ in wanted))
    raise NotFoundError(
        f"an image on the clipboard is read by {programs}, which is not installed; or drop a file here"
        if wanted
        else "there is no desktop here whose clipboard could be read; drop a file here, or name it: @FILE"
    )


def _clipboard_programs(environ: Mapping[str, str]) -> list[tuple[str, ...]]:
    if sys.platform == "darwin":
        get = "get the clipboard as \u00abclass PNGf\u00bb"
        return [("pngpaste", "-"), ("osascript", "-e", get)]
    programs: list[tuple[str, ...]] = []
    if environ.get("WAYLAND_DISPLAY"):
        programs.append(("wl-paste", "--no-newline", "--type", "image/png"))
    if environ.get("DISPLAY"):
        programs.append(("xclip", "-selection", "clipboard", "-target", "image/png", "-out"))
    return programs


async def _printed(command: list[str]) -> bytes:
    """Return what a program prints, one byte more than a prompt takes at most; nothing when it fails."""
    process = await trio.lowlevel.open_process(
        command,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    data = bytearray()
    try:
        with trio.move_on_after(CLIPBOARD_SECONDS):
            async with process.stdout as output:
                # Printed in hexadecimal it is twice as long.
                while len(data) <= 2 * MAX_ATTACHED_BYTES and (
                    piece := await output.receive_some()
                ):
                    data += piece
    finally:
        with suppress(ProcessLookupError, PermissionError):  # macOS: of a group that has ended
            os.killpg(process.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True):  # it is killed
            await process.wait()
    return bytes(data)

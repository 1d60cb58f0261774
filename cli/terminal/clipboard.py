"""The clipboard of the desktop, by the programs that it has for that."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import trio

from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.history import MAX_ATTACHED_BYTES, Attachment, media_type_of

CLIPBOARD_SECONDS = 5.0
"""How long a program may take to say what is on the clipboard: it asks another one."""
_APPLE_PNG = re.compile(rb"data PNGf((?:[0-9A-Fa-f]{2})+)")
"""How osascript prints an image."""


async def clipboard_image(environ: Mapping[str, str], platform: str = sys.platform) -> Attachment:
    """Return the image on the clipboard, from the program that this desktop has for it.

    Raises:
        NotFoundError: There is no image, or no program.
        ValidationError: It is too large.
    """
    wanted = _readers(environ, platform)
    for name, *options in wanted:
        if (path := _program(name, environ)) is not None:
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


async def put_text(text: str, environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Put a text on the clipboard of this desktop; return whether there is a program that did.

    Over ssh the desktop of the person is elsewhere, and only the terminal reaches it. On X11 and Wayland the program
    stays, by itself, until something else is copied.
    """
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    for name, *options in _writers(environ, platform):
        if (path := _program(name, environ)) is None:
            continue
        with trio.move_on_after(CLIPBOARD_SECONDS), suppress(OSError):
            done = await trio.run_process(
                [path, *options],
                stdin=text.encode("utf-8", "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                cwd="/",
                start_new_session=True,
            )
            if done.returncode == 0:
                return True
    return False


def _readers(environ: Mapping[str, str], platform: str) -> list[tuple[str, ...]]:
    if platform == "darwin":
        get = "get the clipboard as \u00abclass PNGf\u00bb"
        return [("pngpaste", "-"), ("osascript", "-e", get)]
    programs: list[tuple[str, ...]] = []
    if environ.get("WAYLAND_DISPLAY"):
        programs.append(("wl-paste", "--no-newline", "--type", "image/png"))
    if environ.get("DISPLAY"):
        programs.append(("xclip", "-selection", "clipboard", "-target", "image/png", "-out"))
    return programs


def _writers(environ: Mapping[str, str], platform: str) -> list[tuple[str, ...]]:
    if platform == "darwin":
        return [("pbcopy",)]
    programs: list[tuple[str, ...]] = []
    if environ.get("WAYLAND_DISPLAY"):
        programs.append(("wl-copy",))
    if environ.get("DISPLAY"):
        programs += [
            ("xclip", "-selection", "clipboard", "-in"),
            ("xsel", "--clipboard", "--input"),
        ]
    return programs


def _program(name: str, environ: Mapping[str, str]) -> str | None:
    path = shutil.which(name, path=environ.get("PATH"))
    # By its whole path: nothing of the folder that the chat works in.
    return path if path is not None and path.startswith("/") else None


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

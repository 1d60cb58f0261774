"""The text of an HTTP answer: plain text as it is, HTML and PDF read in a process of their own.

Parsers in C hold the interpreter while they work, and pages exist on which they work for minutes: in
a thread, one such page would stop every session. So each page is read in a fresh process
(`page_worker`), which is bounded in time and memory and gone when `text_of` returns.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Literal

import msgspec
import trio

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.handles import WebAnswer
from ...runtime.http.url import parse_url
from ...runtime.text import UNDECODABLE
from ..failures import failed
from ..files.file_facts import in_bytes
from ..processes.run_local import RunLocal
from ..workspace.paths import shown
from .text import MAX_TYPE_CHARS, NEVER_TEXT, SAYS_NOTHING, TEXT_TYPES, beginning, decoded, visible

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""The largest body that is read: long reports as PDF fit."""
MAX_TEXT_CHARS = 256 * 1024
"""The longest text: a chapter of a book; past `max_result_bytes`, a model reads it from the artifact."""
MAX_CHAR_BYTES = 4
"""The bytes of one character, in any charset."""
READ_SECONDS = 10.0
"""A hundred times what pages take; the call's own deadline may be shorter."""
REAP_SECONDS = 5.0
"""How long a killed process may take to be gone."""
MAX_READERS = 4
"""Processes at once: they compute, and more of them than cores only take memory."""
MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""The largest answer of the process: more than any text that is asked for, in JSON."""

_START = "from callboard.tools.web.page_worker import main; main()"

_slots = RunLocal("page_readers", lambda: trio.CapacityLimiter(MAX_READERS))
_SCRIPT_TYPES = frozenset({"application/x-sh", "application/x-tex", "application/rtf"})
_BEGINS_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.{0,500}?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_LOOKED_AT = 4096


class PageWork(msgspec.Struct, frozen=True, kw_only=True):
    """A page to read, for so many characters of text; its links are relative to `url`."""

    kind: Literal["html", "pdf"]
    url: str
    content_type: str
    most: int


class PageText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a page (Markdown, or a PDF's plain text), or the problem why it can't be read."""

    problem: str = ""
    title: str = ""
    text: str = ""
    is_cut: bool = False


_PAGE_TEXT = msgspec.json.Decoder(PageText)


async def text_of(answer: WebAnswer) -> PageText:
    """Return the text of an answer; raise `ToolFailure` when it has none."""
    is_part = answer.is_larger or answer.size_bytes > len(answer.body)
    kind = _kind_of(answer)
    if not answer.body:
        return PageText()
    if kind == "text":
        return _plain(answer, is_part=is_part)
    if kind == "other":
        raise _unreadable(answer, "web_fetch reads HTML, PDF and text")
    if kind == "pdf" and is_part:
        more = "more than " if answer.is_larger else ""
        size = f"{more}{in_bytes(answer.size_bytes)}"
        raise ToolFailure(
            ErrorType.FILE_TOO_LARGE,
            f"{_place(answer)} is a PDF of {size}; {in_bytes(MAX_PAGE_BYTES)} is the most that "
            "web_fetch reads. Look for a page that says the same.",
        )
    stated = answer.headers.get("content-type", "")
    work = PageWork(kind=kind, url=answer.url, content_type=stated, most=MAX_TEXT_CHARS)
    page = await read_page(work, answer.body)
    if page.problem == "no_pdf_reader":
        raise _unreadable(
            answer, "to read PDF the operator installs pypdf (pip install 'callboard[pdf]')"
        )
    if page.problem:
        raise failed(
            f"{_place(answer)} can't be shown as text: {page.problem}. Look for another page that "
            "says the same, or ask for its raw form with http_request."
        )
    return msgspec.structs.replace(page, is_cut=page.is_cut or is_part)


def _plain(answer: WebAnswer, *, is_part: bool) -> PageText:
    """Return plain text; decode no more of it than is wanted."""
    data = answer.body[: MAX_TEXT_CHARS * MAX_CHAR_BYTES]
    text = visible(decoded(data, answer.headers.get("content-type", "")))
    is_part = is_part or len(data) < len(answer.body)
    kept = beginning(text, MAX_TEXT_CHARS)
    return PageText(text=kept, is_cut=is_part or len(kept) < len(text))


def _unreadable(answer: WebAnswer, why: str) -> ToolFailure:
    kind = shown(content_type(answer)[:MAX_TYPE_CHARS]) or "binary data"
    return ToolFailure(
        ErrorType.BINARY_FILE, f"{_place(answer)} is {kind}, which has no text to show: {why}."
    )


def _place(answer: WebAnswer) -> str:
    return parse_url(answer.url).shown


def content_type(answer: WebAnswer) -> str:
    """Return the media type alone, in lower case; empty when there is none."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def _kind_of(answer: WebAnswer) -> Literal["html", "pdf", "text", "other"]:
    """Return how to read the answer: by its content type, or its first bytes when that says nothing."""
    stated = content_type(answer)
    head = answer.body[:_LOOKED_AT]
    if stated in {"text/html", "application/xhtml+xml"}:
        return "html"
    if stated in {"application/pdf", "application/x-pdf"} or (
        stated in SAYS_NOTHING and head.startswith(b"%PDF-")
    ):
        return "pdf"
    if stated in SAYS_NOTHING:
        if _BEGINS_HTML.match(head):
            return "html"
        return "other" if _CONTROL.search(head) else "text"
    if stated.startswith(NEVER_TEXT):
        return "other"
    return "text" if stated in _SCRIPT_TYPES or TEXT_TYPES.fullmatch(stated) else "other"


# ── in a process ─────────────────────────────────────────────────────────────────────────────────


async def read_page(work: PageWork, data: bytes) -> PageText:
    """Return the text of a page; when cancelled, kill the process and wait until it is gone."""
    async with _slots():
        answer = bytearray()
        process = await trio.lowlevel.open_process(
            [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {sys.path}; {_START}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        try:
            with trio.move_on_after(READ_SECONDS) as deadline:
                await _talk(process, msgspec.json.encode(work) + b"\n", data, answer)
                await process.wait()
        finally:
            with trio.move_on_after(REAP_SECONDS, shield=True):
                await _end(process)
    if deadline.cancelled_caught:
        return PageText(problem=f"it is made so that it can't be read in {READ_SECONDS:g} seconds")
    try:
        return _PAGE_TEXT.decode(answer)
    except UNDECODABLE:
        return PageText(problem="it is made so that what reads it breaks")


async def _talk(process: trio.Process, head: bytes, data: bytes, answer: bytearray) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_feed, process, head, data)
        assert process.stdout is not None
        async for chunk in process.stdout:
            answer += chunk
            if len(answer) > MAX_ANSWER_BYTES:
                answer.clear()
                process.kill()
                break
        nursery.cancel_scope.cancel()


async def _feed(process: trio.Process, head: bytes, data: bytes) -> None:
    assert process.stdin is not None
    with suppress(trio.BrokenResourceError):  # it died before it read; its answer is missing
        await process.stdin.send_all(head)
        await process.stdin.send_all(data)
        await process.stdin.aclose()


async def _end(process: trio.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            await stream.aclose()
    await process.wait()

"""What a page says: its answer read as what it is, HTML and PDF in a process of their own."""

from __future__ import annotations

import msgspec

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.handles import WebAnswer
from ...runtime.http.url import parse_url
from ..files.file_facts import in_bytes
from ..workspace.paths import shown
from .charset import decoded
from .page_kind import content_type, kind_of
from .page_reader import PageText, PageWork, read_page
from .visible_text import beginning, visible

MAX_PAGE_BYTES = 8 * 1024 * 1024
"""Of a body: long reports as PDF fit."""
MAX_TEXT_CHARS = 256 * 1024
"""Of the text: a book's chapter; what is above `max_result_bytes` is read on from the artifact."""
MAX_CHAR_BYTES = 4
"""Of a character, in any charset."""
MAX_TYPE_CHARS = 100
"""Of a content type in a message; registered ones are shorter."""


async def text_of(answer: WebAnswer) -> PageText:
    """The text of an answer; raises `ToolFailure` when it has none to give."""
    is_part = answer.is_larger or answer.size_bytes > len(answer.body)
    kind = kind_of(answer)
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
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR,
            f"{_place(answer)} can't be shown as text: {page.problem}. Look for another page that "
            "says the same, or ask for its raw form with http_request.",
        )
    return msgspec.structs.replace(page, is_cut=page.is_cut or is_part)


def _plain(answer: WebAnswer, *, is_part: bool) -> PageText:
    """Text as it is; no more of it is decoded than is wanted."""
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

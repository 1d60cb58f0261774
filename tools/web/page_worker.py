"""The process in which a stranger's page is read: it gets bytes, and gives text.

It is started for one page and killed when that takes too long. It imports nothing of callboard but
what reads pages, so that it starts in some hundredths of a second. It bounds its own memory, time
and files first: a page may find a way to make its reader go wild.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any

MAX_MEMORY_BYTES = 1024 * 1024 * 1024
"""Address space; a page of 8 MiB takes less than half of it."""
MAX_HTML_CHARS = 4_000_000
"""Read in some seconds; what comes after is left out, and said so."""
MAX_CPU_SECONDS = 20
"""Twice what the process gets to live; it ends by itself when nobody is left to kill it."""


def main() -> None:
    """Reads one page: a line of JSON that says what it is, then its bytes."""
    _bound()
    stdin = sys.stdin.buffer
    work = json.loads(stdin.readline())
    answer = _answer(work, stdin.read())
    sys.stdout.buffer.write(json.dumps(answer).encode())
    sys.stdout.buffer.flush()
    os._exit(0)


def _bound() -> None:
    import resource

    with suppress(ValueError, OSError):  # macOS has no such bound
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(work: dict[str, Any], data: bytes) -> dict[str, Any]:
    try:
        if work["kind"] == "pdf":
            return _pdf(work, data)
        return _html(work, data)
    except MemoryError:
        return {"problem": "it takes more memory to read than a page may"}


def _html(work: dict[str, Any], data: bytes) -> dict[str, Any]:
    from .charset import decoded
    from .main_content import main_content
    from .markdown import LinkBase, to_markdown
    from .page_tree import parse_page
    from .visible_text import beginning

    html = decoded(data, work["content_type"])
    page = parse_page(html[:MAX_HTML_CHARS])
    links = LinkBase(work["url"], page.base)
    text = to_markdown(main_content(page.body), links)
    if not text:  # all of it was furniture
        text = to_markdown(page.body, links)
    kept = beginning(text, work["most"])
    return {
        "title": page.title[: work["most"]],
        "text": kept,
        "is_cut": page.is_cut or len(kept) < len(text) or len(html) > MAX_HTML_CHARS,
    }


def _pdf(work: dict[str, Any], data: bytes) -> dict[str, Any]:
    from .pdf_text import NoPdf, pdf_text
    from .visible_text import beginning, visible

    try:
        pdf = pdf_text(data, work["most"])
    except ImportError:
        return {"problem": "no_pdf_reader"}
    except NoPdf as why:
        return {"problem": str(why)}
    text = visible(pdf.text)
    kept = beginning(text, work["most"])
    return {"title": pdf.title, "text": kept, "is_cut": pdf.is_cut or len(kept) < len(text)}

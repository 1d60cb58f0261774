"""The process that reads one stranger's page: bytes in, text out.

`page_text` starts it for one page and kills it when it takes too long. It imports nothing of callboard
but what reads pages, and so starts in some hundredths of a second. It first bounds its own memory,
time and files: a page may exploit what parses it.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from typing import Any

MAX_MEMORY_BYTES = 1024 * 1024 * 1024
"""Address space; a page of 8 MiB takes less than half of it."""
MAX_HTML_CHARS = 4_000_000
"""Read in some seconds; the rest is left out, and the answer says so."""
MAX_CPU_SECONDS = 20
"""Twice the process's deadline; it ends by itself when nobody is left to kill it."""
MAX_PDF_PAGES = 200
"""A long report; a model reads it, nobody archives it."""


class NotReadable(Exception):
    """The page can't be read; the message says why, after "the page can't be shown: "."""


def main() -> None:
    """Read one page: a line of JSON that describes it, then its bytes."""
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
        return _pdf(work, data) if work["kind"] == "pdf" else _html(work, data)
    except MemoryError:
        return {"problem": "it takes more memory to read than a page may"}
    except NotReadable as why:
        return {"problem": str(why)}


def _html(work: dict[str, Any], data: bytes) -> dict[str, Any]:
    from .markdown import LinkBase, to_markdown
    from .page_tree import main_content, parse_page
    from .text import beginning, decoded

    html = decoded(data, work["content_type"])
    page = parse_page(html[:MAX_HTML_CHARS])
    links = LinkBase(work["url"], page.base)
    text = to_markdown(main_content(page.body), links)
    if not text:  # all of it was navigation
        text = to_markdown(page.body, links)
    kept = beginning(text, work["most"])
    return {
        "title": page.title[: work["most"]],
        "text": kept,
        "is_cut": page.is_cut or len(kept) < len(text) or len(html) > MAX_HTML_CHARS,
    }


def _pdf(work: dict[str, Any], data: bytes) -> dict[str, Any]:
    from .text import beginning, visible

    try:
        import pypdf
        import pypdf.errors
    except ImportError:
        return {"problem": "no_pdf_reader"}
    pages: list[str] = []
    letters = 0
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise NotReadable("it is encrypted with a password")
        count = len(reader.pages)
        for number in range(min(count, MAX_PDF_PAGES)):
            text = reader.pages[number].extract_text().strip()
            pages.append(f"--- page {number + 1} of {count} ---\n\n{text}".rstrip())
            letters += len(text)
            if letters > work["most"]:
                break
        title = str(reader.metadata.title or "") if reader.metadata is not None else ""
    # The file is a stranger's, and pypdf raises whatever its damage leads to.
    except (*_DAMAGE, pypdf.errors.PyPdfError) as fault:
        raise NotReadable(f"it is damaged ({type(fault).__name__})") from fault
    if not letters:
        raise NotReadable("it holds no text, only pictures of it")
    whole = visible("\n\n".join(pages))
    kept = beginning(whole, work["most"])
    is_cut = len(pages) < count or len(kept) < len(whole)
    return {"title": title, "text": kept, "is_cut": is_cut}


_DAMAGE = (
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError),
    *(OverflowError, ZeroDivisionError, AssertionError, OSError),
)

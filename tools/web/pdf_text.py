"""The text of a PDF, page by page, when pypdf is installed."""

from __future__ import annotations

import io
from typing import NamedTuple

MAX_PDF_PAGES = 200
"""A long report; what is asked for by web_fetch is read by a model, not archived."""


class PdfText(NamedTuple):
    """What a PDF says.

    Attributes:
        title: What it calls itself; it may be empty.
        text: Its pages, each below a line with its number.
        is_cut: Whether there are more pages.
    """

    title: str
    text: str
    is_cut: bool


class NoPdf(Exception):
    """It can't be read; says why."""


def pdf_text(data: bytes, most: int) -> PdfText:
    """The text of a PDF, up to about so many characters.

    Raises:
        ImportError: pypdf is not installed.
        NoPdf: It is encrypted or damaged.
    """
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise NoPdf("it is encrypted with a password")
        count = len(reader.pages)
        pages: list[str] = []
        letters = 0
        for number in range(min(count, MAX_PDF_PAGES)):
            text = reader.pages[number].extract_text().strip()
            pages.append(f"--- page {number + 1} of {count} ---\n\n{text}".rstrip())
            letters += len(text)
            if letters > most:
                break
        title = str(reader.metadata.title or "") if reader.metadata is not None else ""
    # The file is a stranger's, and pypdf raises what its damage leads to.
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError) as fault:
        raise NoPdf(f"it is damaged ({type(fault).__name__})") from fault
    except (RecursionError, OverflowError, ZeroDivisionError, AssertionError, OSError) as fault:
        raise NoPdf(f"it is damaged ({type(fault).__name__})") from fault
    if not letters:
        raise NoPdf("it holds no text, only pictures of it")
    return PdfText(title, "\n\n".join(pages), len(pages) < count)

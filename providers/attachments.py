"""Attachments as models see them: an image, a document, text, or a note that it can't be shown.

Each wire format and server decides what it takes. The text forms are written here, so that they
read the same everywhere.
"""

from __future__ import annotations

import base64
import re

from ..runtime.history import Attachment

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Images that every provider takes that takes images."""

PDF = "application/pdf"

_TEXT_TYPES = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "yaml", "x-yaml", "toml", "javascript", "sql", "x-sh", "x-ndjson")
)
_TEXT_SUFFIXES = ("+json", "+xml", "+yaml")


_SEES = re.compile(
    r"claude|gemini|gpt-4o|gpt-4\.|gpt-4-(turbo|vision)|gpt-[5-9]|(?:^|/)o[134]"
    r"|[-_.\d]vl|vision|omni|llava|pixtral|gemma-?[34]|llama-?4|mistral-(small|medium|large)-(3|25|latest)"
    r"|grok-[4-9]|internvl|minicpm-v|moondream|glm-4\.\d+v|kimi-k2\.[5-9]|qwen3\.[5-9]",
    re.IGNORECASE,
)
_BLIND = re.compile(r"o[13]-mini|o1-preview|gpt-4-0|codex-mini|embed", re.IGNORECASE)


def sees(model: str) -> bool:
    """Return whether a model is known to take images.

    What a person attaches is sent to any model; what a tool returns only to these: a request with an image is
    refused by others, and would be refused in every later turn.
    """
    return _SEES.search(model) is not None and _BLIND.search(model) is None


def media_type(attachment: Attachment) -> str:
    """Return the type in lower case, without parameters such as the character set."""
    return attachment.media_type.partition(";")[0].strip().lower()


def is_text(attachment: Attachment) -> bool:
    """Return whether the attachment is text, which every model reads."""
    kind = media_type(attachment)
    return kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(_TEXT_SUFFIXES)


def as_text(attachment: Attachment) -> str:
    """Return a text file with its name, as part of what the person said."""
    content = attachment.data.decode("utf-8", "replace")
    return f"[File {label(attachment)}]\n{content}\n[End of file]"


def as_note(attachment: Attachment) -> str:
    """Return the note for a file that this model can't be shown."""
    return f"[File {label(attachment)} was attached, but this model can't be shown such files.]"


def as_data_url(attachment: Attachment) -> str:
    """Return the bytes as a `data:` URL."""
    return f"data:{media_type(attachment)};base64,{as_base64(attachment)}"


def as_base64(attachment: Attachment) -> str:
    """Return the bytes in base64."""
    return base64.b64encode(attachment.data).decode("ascii")


def file_name(attachment: Attachment) -> str:
    """Return the name on one line, without control characters; may be empty."""
    visible = (char if char.isprintable() else " " for char in attachment.name)
    return " ".join("".join(visible).split())


def label(attachment: Attachment) -> str:
    """Return the name, type and size on one line."""
    name = file_name(attachment) or "without a name"
    return f"{name} ({media_type(attachment) or 'unknown type'}, {len(attachment.data)} bytes)"

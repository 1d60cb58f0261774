"""What may stand beside an input: checked before anything is stored or sent.

An input that a provider refuses stays in its session's history and would be refused again in
every later turn, so what is plainly no image or no PDF is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import ValidationError
from ..history import MAX_ATTACHED_BYTES, MAX_ATTACHMENTS, Attachment

OWN_TYPE = "give it its own media type"
"""What to do about an attachment that is something else, where a program names the types."""

MAX_NAME_CHARS = 255
"""As long as file systems let a name be."""

_MEDIA_TYPE = re.compile(r"[A-Za-z]+/[A-Za-z0-9][A-Za-z0-9.+_-]{0,100}( *;[ -~]{0,100})?")

_BEGINNINGS = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "application/pdf": re.compile(rb".{0,1024}%PDF-", re.DOTALL),
}
"""How the files begin that providers decode; the PDF mark may stand a little behind the beginning,
as readers of PDF have it."""


def media_type_of(data: bytes) -> str | None:
    """The media type of an image or a PDF, by how it begins; `None` for anything else."""
    found = (kind for kind, beginning in _BEGINNINGS.items() if beginning.match(data))
    return next(found, None)


def checked_attachments(attachments: Iterable[Attachment]) -> tuple[Attachment, ...]:
    """The attachments of one input, if they may be.

    Raises:
        ValidationError: They are too many, too large, empty, or not what they say.
    """
    given = tuple(attachments)
    for each in given:
        if problem := _problem(each):
            raise ValidationError(problem, field="attachments")
    size = sum(len(each.data) for each in given)
    if len(given) > MAX_ATTACHMENTS or size > MAX_ATTACHED_BYTES:
        raise ValidationError(
            f"{len(given)} attachments of {size} bytes are too much for one prompt; "
            f"{MAX_ATTACHMENTS} and {MAX_ATTACHED_BYTES} bytes are the most",
            field="attachments",
        )
    return given


def _problem(given: Attachment) -> str | None:
    texts = (getattr(given, "media_type", None), getattr(given, "name", None))
    is_typed = isinstance(given, Attachment) and isinstance(given.data, bytes)
    if not is_typed or not all(isinstance(text, str) for text in texts):
        return f"an attachment is a callboard.Attachment with bytes; this is {given!r:.80}"
    if not _MEDIA_TYPE.fullmatch(given.media_type):
        return f"{given.media_type!r:.80} is no media type, like image/png or text/plain"
    if len(given.name) > MAX_NAME_CHARS:
        return f"the name {given.name!r:.80} has more than {MAX_NAME_CHARS} characters"
    named = f"the attachment {given.name!r:.80}" if given.name else "an attachment"
    if not given.data:
        return f"{named} is empty"
    kind = given.media_type.partition(";")[0].strip().lower()
    if (beginning := _BEGINNINGS.get(kind)) is not None and not beginning.match(given.data):
        found = media_type_of(given.data)
        is_what = f"; it begins like {found}" if found is not None else ""
        return f"{named} is no {kind}{is_what}: {OWN_TYPE}"
    return None

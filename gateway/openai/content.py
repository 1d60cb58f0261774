"""What a body holds: its JSON within bounds, and the texts, images and files of messages as a session has them.

msgspec keeps the interpreter's lock for as long as it decodes, also in a thread. So a body is read in steps: its
values are counted, long lists are decoded item by item, and what is only passed on, or passed over, stays text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import msgspec
import trio

from ...runtime.definitions import Attachment
from ...runtime.text import without_surrogates
from ...runtime.turn_options import MAX_SCHEMA_CHARS
from ...tools.schema.foreign_schema import MAX_SCHEMA_DEPTH
from ...tools.schema.validation import is_deeper
from ..shared.json_values import decoder, has_more_values
from .problems import ApiProblem

LARGE_BODY = 64 * 1024
"""Bytes; a larger body is read in a thread, so that others have their turns meanwhile."""
MAX_VALUES = 500_000
"""Values of a body: ten for each of the most messages, and more. Decoding as many takes some 50 ms."""
MAX_TOOLS_CHARS = 2 * MAX_SCHEMA_CHARS
"""Of the parameters of all tools together: the model reads them with each request."""

NULL = msgspec.Raw(b"null")
"""The text of a parameter that was left out."""
NOTHING = frozenset({b"null", b"[]", b"{}", b'""'})

Kind = TypeVar("Kind")

NO_WORDS = "(The person sent this without words.)"
"""The text of an input that is an image or a file alone: an input has one."""


class TextPart(msgspec.Struct, tag_field="type", tag="text", gc=False):
    """Words."""

    text: str


class RefusalPart(msgspec.Struct, tag_field="type", tag="refusal", gc=False):
    """Words with which a model refused."""

    refusal: str


class ImageUrl(msgspec.Struct, gc=False):
    """An image in a data URL."""

    url: str


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url", gc=False):
    """An image."""

    image_url: ImageUrl


class FileData(msgspec.Struct, gc=False):
    """A file in a data URL."""

    file_data: str | None = None
    filename: str = ""


class FilePart(msgspec.Struct, tag_field="type", tag="file", gc=False):
    """A file."""

    file: FileData


Part = TextPart | RefusalPart | ImagePart | FilePart
Content = str | Annotated[list[Part], msgspec.Meta(max_length=10_000)] | None


class Read(msgspec.Struct, frozen=True, gc=False):
    """A content as a session has it."""

    text: str
    attachments: tuple[Attachment, ...] = ()


def read_content(content: Content, param: str) -> Read:
    """Return the words and files of a content; raise `ApiProblem` with its `param`."""
    if content is None or isinstance(content, str):
        return Read(without_surrogates(content or ""))
    words: list[str] = []
    files: list[Attachment] = []
    for part in content:
        match part:
            case TextPart():
                words.append(part.text)
            case RefusalPart():
                words.append(part.refusal)
            case ImagePart():
                files.append(data_url(part.image_url.url, param))
            case FilePart(file=file):
                if file.file_data is None:
                    raise ApiProblem("send files in file_data: there are no uploads here", param)
                files.append(data_url(file.file_data, param, file.filename))
    return Read(without_surrogates("\n".join(words)), tuple(files))


def data_url(url: str, param: str, name: str = "") -> Attachment:
    """Return what a data URL holds; raise `ApiProblem` for any other, which is never fetched."""
    head, comma, data = url.partition(",")
    scheme, _, form = head.partition(":")
    media_type, _, encoding = form.rpartition(";")
    if scheme != "data" or not comma or encoding != "base64":
        raise ApiProblem(
            "send images and files as data:MEDIA/TYPE;base64,… : no address is fetched for a client",
            param,
        )
    try:
        return Attachment(media_type, base64.b64decode(data, validate=True), name=name)
    except binascii.Error as error:
        raise ApiProblem("this data URL is not valid base64", param) from error


# ── the JSON of a body ───────────────────────────────────────────────────────────────────────────


async def read_by(read: Callable[[bytes], Kind], body: bytes) -> Kind:
    """Return what `read` makes of a body; of a large one in a thread."""
    if len(body) <= LARGE_BODY:
        await trio.lowlevel.checkpoint()
        return read(body)
    found = await trio.to_thread.run_sync(_read_or_refused, read, body)
    if isinstance(found, ApiProblem):
        try:
            raise found
        finally:
            del found  # it refers to this frame
    return found


def _read_or_refused(read: Callable[[bytes], Kind], body: bytes) -> Kind | ApiProblem:
    """Return the refusal of a body, too: raised from the thread, it would hold frames that hold the body, in a circle."""
    try:
        return read(body)
    except ApiProblem as problem:
        problem.__cause__ = problem.__context__ = problem.__traceback__ = None
        return problem


def decoded(body: bytes, kind: type[Kind]) -> Kind:
    """Return a body as a request; raise `ApiProblem` with the parameter that is wrong."""
    if has_more_values(body, MAX_VALUES):
        raise ApiProblem(f"the body has more than {MAX_VALUES} values")
    return _decoded(body, kind)


def decoded_items(items: Iterable[msgspec.Raw], kind: type[Kind], param: str) -> list[Kind]:
    """Return the items of a list of a body; raise `ApiProblem` with the parameter that is wrong."""
    return [_decoded(item, kind, f"{param}[{number}]") for number, item in enumerate(items)]


def _decoded(text: bytes | msgspec.Raw, kind: type[Kind], param: str = "") -> Kind:
    try:
        return decoder(kind).decode(text)
    except msgspec.ValidationError as error:
        why, _, place = str(error).replace("`key` in `$", "`$").partition(" - at `$")
        raise ApiProblem(why, (param + place.rstrip("`")).lstrip(".") or None) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiProblem(f"the body is not JSON: {error}") from error
    except RecursionError:
        raise ApiProblem("the body is nested too deeply") from None


def is_given(text: msgspec.Raw) -> bool:
    """Whether a parameter says anything."""
    return len(text) > 4 or bytes(text) not in NOTHING  # the longest of these has four letters


def checked_schema(text: msgspec.Raw, param: str) -> str:
    """Return the text of a JSON Schema; raise `ApiProblem` for what is none, too long or too deep."""
    if len(text) > MAX_SCHEMA_CHARS:
        raise ApiProblem(f"a JSON Schema has {MAX_SCHEMA_CHARS} bytes at most", param)
    schema = bytes(text).decode()
    if not schema.startswith("{"):
        raise ApiProblem("a JSON Schema is an object", param)
    if is_deeper(schema, MAX_SCHEMA_DEPTH):
        raise ApiProblem(f"it is nested deeper than {MAX_SCHEMA_DEPTH} levels", param)
    return schema

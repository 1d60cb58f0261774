"""Contents of messages: texts, images and files, as they come and as a session has them."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import msgspec

from ...runtime.definitions import Attachment
from ...runtime.text import without_surrogates
from .problems import ApiProblem

NO_WORDS = "(The person sent this without words.)"
"""The text of an input that is an image or a file alone: an input has one."""


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """Words."""

    text: str


class RefusalPart(msgspec.Struct, tag_field="type", tag="refusal"):
    """Words with which a model refused."""

    refusal: str


class ImageUrl(msgspec.Struct):
    """An image in a data URL."""

    url: str


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image."""

    image_url: ImageUrl


class FileData(msgspec.Struct):
    """A file in a data URL."""

    file_data: str | None = None
    filename: str = ""


class FilePart(msgspec.Struct, tag_field="type", tag="file"):
    """A file."""

    file: FileData


Part = TextPart | RefusalPart | ImagePart | FilePart
Content = str | Annotated[list[Part], msgspec.Meta(max_length=10_000)] | None


class Read(msgspec.Struct, frozen=True):
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

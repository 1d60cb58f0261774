"""Images and files beside a prompt: to the model, on the record, after a restart."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ValidationError
from callboard.runtime.events import InputAccepted
from callboard.runtime.history import MAX_ATTACHED_BYTES, MAX_ATTACHMENTS
from callboard.runtime.redaction import Secret, redactor
from support.stage import Stage, on_both_stores, open_stage

KEY = "attached-secret-word-0815"
PIXEL = b"\x89PNG\r\n\x1a\n not much of an image"
IMAGE = callboard.Attachment("image/png", PIXEL, name="pixel.png")


def text_file(content: bytes, name: str = "notes.txt") -> callboard.Attachment:
    return callboard.Attachment("text/plain; charset=utf-8", content, name=name)


def shown(message: dict[str, Any]) -> str:
    return str(message["content"])


def said(stage: Stage, request: int = -1) -> str:
    """What the model was shown of the first input, in this request."""
    messages = stage.sent[request]
    return shown(next(message for message in messages if message["role"] == "user"))


@on_both_stores
async def test_an_image_reaches_the_model_now_and_later(tmp_path: Path, store: str) -> None:
    async with open_stage(tmp_path, [reply("A pixel."), reply("Still.")], store=store) as stage:
        session = await stage.runtime.create_session()
        assert await session.run("What is it?", attachments=[IMAGE]) == "A pixel."
        assert await session.run("And now?") == "Still."
        encoded = base64.b64encode(PIXEL).decode()
        for request in range(2):
            assert f"data:image/png;base64,{encoded}" in said(stage, request)
            assert "What is it?" in said(stage, request)


async def test_an_image_is_there_after_a_restart(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("A pixel.")], store="disk") as stage:
        session = await stage.runtime.create_session()
        await session.run("What is it?", attachments=[IMAGE])
    async with open_stage(tmp_path, [reply("Still.")], store="disk") as stage:
        same = await stage.runtime.get_session(session.session_id)
        assert await same.run("And now?") == "Still."
        assert base64.b64encode(PIXEL).decode() in said(stage)
        [accepted, _] = [
            stored.event
            for stored in await stage.runtime.store.events(session.session_id)
            if isinstance(stored.event, InputAccepted)
        ]
        assert accepted.attachments == (IMAGE,)


@on_both_stores
async def test_a_secret_in_a_file_is_neither_on_record_nor_sent(tmp_path: Path, store: str) -> None:
    redactor.add(Secret(KEY))
    encoded = base64.b64encode(KEY.encode())
    files = [text_file(f"key={KEY};\n".encode()), text_file(b"Basic " + encoded, "auth.txt")]
    async with open_stage(tmp_path, [reply("Noted.")], store=store) as stage:
        session = await stage.runtime.create_session()
        await session.run("Look.", attachments=[*files, IMAGE])
        [event] = [
            stored.event
            for stored in await stage.runtime.store.events(session.session_id)
            if isinstance(stored.event, InputAccepted)
        ]
        stars = b"*" * len(KEY)
        assert event.attachments[0].data == b"key=" + stars + b";\n"
        assert event.attachments[2] == IMAGE
        for secret in (KEY, encoded.decode()[:30]):
            assert secret not in said(stage)
            assert secret.encode() not in event.attachments[1].data


async def test_a_name_with_control_characters_is_on_one_line_for_the_model(tmp_path: Path) -> None:
    name = "a\x1b[2J\nb\u202e\udcff.txt"
    async with open_stage(tmp_path, [reply("Fine.")]) as stage:
        session = await stage.runtime.create_session()
        assert await session.run("Look.", attachments=[text_file(b"words", name)]) == "Fine."
        assert "[File a [2J b " in said(stage)
        assert "words" in said(stage)
        assert not {"\x1b", "\u202e", "\udcff"} & set(said(stage))


@pytest.mark.parametrize(
    ("attachments", "words"),
    [
        (["x.png"], "is a callboard.Attachment"),
        ([callboard.Attachment("text/plain", "no bytes")], "is a callboard.Attachment"),  # type: ignore[arg-type]
        ([callboard.Attachment("text/plain", b"x", name=None)], "is a callboard.Attachment"),  # type: ignore[arg-type]
        ([callboard.Attachment("picture", b"x")], "not a media type"),
        ([callboard.Attachment("text/plain\r\nX: y", b"x")], "not a media type"),
        ([text_file(b"x", "n" * 256)], "more than 255"),
        ([text_file(b"")], "'notes.txt' is empty"),
        (
            [callboard.Attachment("IMAGE/png", b"GIF89a...")],
            "not image/png; it begins like image/g",
        ),
        ([callboard.Attachment("application/pdf", b"words")], "is not application/pdf: give"),
        ([IMAGE] * (MAX_ATTACHMENTS + 1), "too much"),
        ([text_file(bytes(MAX_ATTACHED_BYTES + 1))], "too much"),
    ],
)
async def test_no_attachment_is_refused(tmp_path: Path, attachments: list[Any], words: str) -> None:
    async with open_stage(tmp_path, [reply("Fine.")]) as stage:
        session = await stage.runtime.create_session()
        with pytest.raises(ValidationError, match=words):
            await session.run("Look.", attachments=attachments)
        # The positive control: as many as are allowed.
        assert await session.run("Look.", attachments=[IMAGE] * MAX_ATTACHMENTS) == "Fine."


async def test_the_largest_attachment_is_stored_and_sent(tmp_path: Path) -> None:
    data = PIXEL + bytes(MAX_ATTACHED_BYTES - len(PIXEL))
    large = callboard.Attachment("image/png", data)
    async with open_stage(tmp_path, [reply("Large.")], store="disk") as stage:
        session = await stage.runtime.create_session()
        assert await session.run("Look.", attachments=[large]) == "Large."
        assert len(said(stage)) > MAX_ATTACHED_BYTES * 4 // 3

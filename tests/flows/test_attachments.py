"""Images and files beside a prompt: to the model, on the record, after a restart."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from stage import on_both_stores, open_stage

import callboard
from callboard.providers.script import reply
from callboard.runtime.errors import ValidationError
from callboard.runtime.history import MAX_ATTACHED_BYTES, MAX_ATTACHMENTS

PIXEL = b"\x89PNG\r\n\x1a\n not much of an image"
IMAGE = callboard.Attachment("image/png", PIXEL, name="pixel.png")


def shown(message: dict[str, Any]) -> str:
    return str(message["content"])


@on_both_stores
async def test_an_image_reaches_the_model_now_and_in_later_turns(
    tmp_path: Path, store: str
) -> None:
    async with open_stage(tmp_path, [reply("A pixel."), reply("Still.")], store=store) as stage:
        session = await stage.runtime.create_session()
        assert await session.run("What is it?", attachments=[IMAGE]) == "A pixel."
        assert await session.run("And now?") == "Still."
        encoded = base64.b64encode(PIXEL).decode()
        for messages in stage.sent:
            user = next(message for message in messages if message["role"] == "user")
            assert f"data:image/png;base64,{encoded}" in shown(user)
            assert "What is it?" in shown(user)


@pytest.mark.parametrize(
    ("attachments", "words"),
    [
        (["x.png"], "is a callboard.Attachment"),
        ([callboard.Attachment("picture", b"x")], "no media type"),
        ([IMAGE] * (MAX_ATTACHMENTS + 1), "too much"),
        ([callboard.Attachment("image/png", bytes(MAX_ATTACHED_BYTES + 1))], "too much"),
    ],
)
async def test_what_is_no_attachment_is_refused_ahead_of_the_model(
    tmp_path: Path, attachments: list[Any], words: str
) -> None:
    async with open_stage(tmp_path, [reply("Fine.")]) as stage:
        session = await stage.runtime.create_session()
        with pytest.raises(ValidationError, match=words):
            await session.run("Look.", attachments=attachments)
        # The positive control: as many as are allowed.
        assert await session.run("Look.", attachments=[IMAGE] * MAX_ATTACHMENTS) == "Fine."

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import CallStatus
from callboard.runtime.errors import ValidationError
from callboard.runtime.events import CallFinished, InputAccepted, MessageCompleted, TurnEnded
from callboard.runtime.history import Opaque, Part, Text
from callboard.runtime.redaction import Secret, redactor
from callboard.runtime.store import codec as event_codec
from callboard.runtime.store.codec import decode_event, encode_event

ANY_TEXT = st.text(st.characters(codec=None))


def message(*parts: Part) -> MessageCompleted:
    return MessageCompleted(turn_id="t", message_id="m", parts=parts, provider="p", model="m")


@given(ANY_TEXT, st.lists(ANY_TEXT))
def test_what_is_returned_is_what_is_read_back(text: str, names: list[str]) -> None:
    ended = TurnEnded(turn_id=text, outcome="failed", unreaped=tuple(names))
    for event in (InputAccepted(input_id="i", text=text), ended, message(Text(text))):
        returned, data = encode_event(event)
        assert decode_event(data) == returned


@given(st.text())
def test_text_that_is_unicode_is_not_changed(text: str) -> None:
    event = message(Text(text))
    assert encode_event(event)[0] is event


def test_opaque_parts_survive() -> None:
    event = message(Opaque("d", "k", msgspec.Raw(b'{"a": [1, 2]}')))
    assert decode_event(encode_event(event)[1]) == event


@pytest.mark.parametrize("data", [b"", b"{", b"}{", b'1, "x": 2', b'"\xff"'])
def test_an_opaque_part_that_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValidationError, match="opaque part of message m"):
        encode_event(message(Opaque("d", "k", msgspec.Raw(data))))


def test_an_event_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    event = InputAccepted(input_id="i", text="x" * 100)
    size = len(encode_event(event)[1])
    monkeypatch.setattr(event_codec, "MAX_EVENT_BYTES", size)
    encode_event(event)
    monkeypatch.setattr(event_codec, "MAX_EVENT_BYTES", size - 1)
    with pytest.raises(ValidationError, match=f"{size} bytes"):
        encode_event(event)


def test_a_secret_is_masked_wherever_an_event_holds_it() -> None:
    event = CallFinished(
        turn_id="t",
        call_id="c",
        name="read_file",
        status=CallStatus.SUCCESS,
        result=msgspec.json.encode({"content": 'a "quoted-secret" b'}).decode(),
        display="quoted-secret",
    )
    opaque = message(Text("süß"), Opaque("d", "k", msgspec.Raw(b'{"a":"quoted-secret"}')))
    assert encode_event(event)[0] is event
    assert encode_event(opaque)[0] is opaque
    redactor.add(Secret("quoted-secret"))
    for given_event in (event, opaque):
        masked, data = encode_event(given_event)
        assert b"quoted-secret" not in data
        assert decode_event(data) == masked
        assert type(masked) is type(given_event)
    masked, _ = encode_event(event)
    assert isinstance(masked, CallFinished)
    assert msgspec.json.decode(masked.result) == {"content": 'a "***" b'}
    assert masked.status is CallStatus.SUCCESS


def test_bytes_with_broken_utf8_are_damaged_like_any_others() -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_event(b'{"type":"title_set","title":"\xff"}')

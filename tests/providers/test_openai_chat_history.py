"""What of a conversation goes back in Chat Completions: reasoning, signatures, attachments."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import msgspec
import pytest

from callboard.providers.openai_chat.dialect import openai_chat_at
from callboard.providers.provider import ModelRequest
from callboard.runtime.history import (
    Answer,
    Attachment,
    Call,
    Input,
    Item,
    Opaque,
    Part,
    Result,
    Round,
    Text,
    Thinking,
)

LOCAL = "http://127.0.0.1:8000/v1"
OPENAI = "https://api.openai.com/v1"
OPENROUTER = "https://openrouter.ai/api/v1"
DEEPSEEK = "https://api.deepseek.com/v1"
GROQ = "https://api.groq.com/openai/v1"

DETAILS = [{"type": "reasoning.encrypted", "data": "x", "index": 0}]
CALL = Call("i", "look", "{}")
PNG = Attachment("image/png", b"\x89PNG", "a.png")
PDF = Attachment("application/pdf", b"%PDF", "b.pdf")
CSV = Attachment("text/csv; charset=utf-8", b"a,b\xff", "c.csv")


def opaque(kind: str, value: Any, dialect: str = "openai_chat") -> Opaque:
    return Opaque(dialect, kind, msgspec.Raw(json.dumps(value).encode()))


def answer(*parts: Part, provider: str = "p", dialect: str = "openai_chat") -> Answer:
    return Answer(parts, dialect=dialect, provider=provider, model="m")


def messages(base_url: str, *items: Item, provider: str = "p") -> list[Any]:
    request = ModelRequest(model="m", provider=provider, rounds=[Round(items)])
    sent: list[Any] = json.loads(openai_chat_at(base_url).build(request).body)["messages"]
    return sent


def assistant(base_url: str, given: Answer) -> dict[str, Any]:
    [message] = messages(base_url, given)
    assert message.pop("role") == "assistant"
    message.pop("tool_calls", None)
    return message  # type: ignore[no-any-return]


def test_reasoning_goes_back_beside_calls_to_servers_of_open_models() -> None:
    thought = (Thinking("h"), Thinking("m"))
    assert assistant(LOCAL, answer(*thought, CALL)) == {
        "content": None,
        "reasoning_content": "hm",
    }
    assert assistant(LOCAL, answer(*thought, Text("a"))) == {"content": "a"}
    for base_url in (OPENAI, GROQ):
        assert assistant(base_url, answer(*thought, CALL)) == {"content": None}


def test_deepseek_gets_reasoning_with_every_answer_and_an_empty_one_beside_calls() -> None:
    assert assistant(DEEPSEEK, answer(Thinking("hm"), Text("a"))) == {
        "content": "a",
        "reasoning_content": "hm",
    }
    assert assistant(DEEPSEEK, answer(Text("a"))) == {"content": "a"}
    for given in (answer(CALL), answer(Thinking("hm"), CALL, provider="other")):
        assert assistant(DEEPSEEK, given) == {"content": None, "reasoning_content": ""}


def test_openrouter_gets_its_details_back_as_they_came() -> None:
    parts = (Thinking("hm"), opaque("reasoning_details", DETAILS), Text("a"))
    assert assistant(OPENROUTER, answer(*parts)) == {"content": "a", "reasoning_details": DETAILS}
    assert assistant(OPENROUTER, answer(Thinking("hm"), Text("a"))) == {
        "content": "a",
        "reasoning": "hm",
    }


@pytest.mark.parametrize("who", [{"provider": "other"}, {"dialect": "anthropic"}])
@pytest.mark.parametrize("base_url", [LOCAL, OPENROUTER])
def test_what_another_provider_or_format_gave_stays_here(
    base_url: str, who: dict[str, str]
) -> None:
    extras = opaque("call_extras", [{"call": 0, "extra_content": {"s": 1}}])
    parts = (Thinking("hm"), opaque("reasoning_details", DETAILS), CALL, extras)
    assert set(messages(base_url, answer(*parts, **who))[0]["tool_calls"][0]) == {
        "id",
        "type",
        "function",
    }
    assert assistant(base_url, answer(*parts, **who)) == {"content": None}
    # The control.
    assert len(assistant(base_url, answer(*parts))) == 2


def test_a_signature_of_a_call_goes_back_with_it() -> None:
    signed = {"google": {"thought_signature": "x"}}
    extras = opaque("call_extras", [{"call": 1, "extra_content": signed}, {"call": 9}])
    [message] = messages(LOCAL, answer(CALL, Call("j", "look", "{}"), extras))
    assert all("extra_content" not in call for call in message["tool_calls"])
    extras = opaque("call_extras", [{"call": n, "extra_content": signed} for n in (1, 9)])
    [message] = messages(LOCAL, answer(CALL, Call("j", "look", "{}"), extras))
    assert [call.get("extra_content") for call in message["tool_calls"]] == [None, signed]


def test_a_round_is_encoded_anew_for_another_provider() -> None:
    round_ = Round([answer(Thinking("hm"), CALL), Result("i", "look", "{}")])

    def build(base_url: str, provider: str) -> bytes:
        request = ModelRequest(model="m", provider=provider, rounds=[round_])
        return openai_chat_at(base_url).build(request).body

    assert b"hm" in build(LOCAL, "p")
    assert b"hm" not in build(LOCAL, "q")
    assert b"hm" not in build(GROQ, "p")
    assert b"hm" in build(LOCAL, "p")


MISTRAL = "https://api.mistral.ai/v1"


@pytest.mark.parametrize(
    ("base_url", "pattern", "kept"),
    [
        (LOCAL, "call_[0-9a-f]{32}", "x" * 40),
        (OPENAI, "call_[0-9a-f]{32}", "x" * 40),
        (MISTRAL, "[a-zA-Z0-9]{9}", "a1B2c3D4e"),
        (OPENROUTER, "y{64}", "y" * 64),
    ],
)
def test_ids_that_a_server_refuses_go_out_as_their_hash(
    base_url: str, pattern: str, kept: str
) -> None:
    ids = ("y" * 64, kept)
    calls = answer(*(Call(call_id, "look", "{}") for call_id in dict.fromkeys(ids)))
    items: list[Item] = [calls]
    items += [Result(call_id, "look", "{}") for call_id in dict.fromkeys(ids)]
    first, *results = messages(base_url, *items)
    sent = [call["id"] for call in first["tool_calls"]]
    assert [result["tool_call_id"] for result in results] == sent
    assert re.fullmatch(pattern, sent[0])
    assert sent[-1] == kept
    assert messages(base_url, *items) == [first, *results]


@pytest.mark.parametrize("base_url", [LOCAL, OPENAI, MISTRAL, OPENROUTER, DEEPSEEK])
def test_an_answer_that_says_and_calls_nothing_is_left_out(base_url: str) -> None:
    empty = answer(Thinking("hm", "signed"), Text(" "), dialect="gemini")
    own = answer(Thinking("hm"))

    def sent(*rounds: Round) -> list[Any]:
        request = ModelRequest(model="m", provider="p", rounds=rounds)
        body = json.loads(openai_chat_at(base_url).build(request).body)
        return [(each["role"], each["content"]) for each in body["messages"]]

    rounds = [Round([Input("a"), empty]), Round([Input("b"), own]), Round([Input("c")])]
    assert sent(*rounds) == [("user", "a\n\nb\n\nc")]
    alone = [Round([Input("a")]), Round([empty]), Round([Input("b")])]
    assert sent(*alone) == [("user", "a\n\nb")]
    # The controls: text keeps an answer, and what stands around the empty ones stays.
    said = Round([Input("d"), answer(Text("e"))])
    around = [("user", "d"), ("assistant", "e"), ("user", "a\n\nd"), ("assistant", "e")]
    assert sent(said, rounds[0], said) == around
    called = Round([Input("f"), answer(CALL), Result("i", "look", "{}")])
    roles = [role for role, _ in sent(called, Round([own]), Round([answer(Text("g"))]))]
    assert roles == ["user", "assistant", "tool", "assistant"]


def url(attachment: Attachment, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(attachment.data).decode()}"


def test_images_and_files_are_parts_where_the_server_takes_them() -> None:
    [message] = messages(OPENAI, Input("Look.", (PNG, PDF, CSV)), Input("And?"))
    text = "Look.\n\n[File c.csv (text/csv, 4 bytes)]\na,b\ufffd\n[End of file]\n\nAnd?"
    assert message["content"] == [
        {"type": "text", "text": text},
        {"type": "image_url", "image_url": {"url": url(PNG, "image/png")}},
        {
            "type": "file",
            "file": {"filename": "b.pdf", "file_data": url(PDF, "application/pdf")},
        },
    ]
    [message] = messages(OPENAI, Input("", (PNG,)))
    assert [part["type"] for part in message["content"]] == ["image_url"]


def test_what_the_server_does_not_take_is_a_note() -> None:
    [message] = messages(DEEPSEEK, Input("Look.", (PNG, PDF)))
    first, image, file = message["content"].split("\n\n")
    assert first == "Look."
    assert "a.png (image/png, 4 bytes) was attached" in image
    assert "b.pdf (application/pdf, 4 bytes) was attached" in file
    [message] = messages(LOCAL, Input("Look.", (PNG, PDF)))
    assert [part["type"] for part in message["content"]] == ["text", "image_url"]
    for kind in ("audio/wav", "image/tiff", ""):
        [message] = messages(OPENAI, Input("Hear.", (Attachment(kind, b"x"),)))
        assert "without a name" in message["content"]

"""Requests in the forms in which chat front ends of others send them, field by field as they do."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import msgspec
import pytest

import callboard
from callboard.config.sections import ServerSettings
from callboard.providers.testing.script import reply
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.door_scene import request
from support.gateway.raw_door import Answer, answer_to

CHAT = "/v1/chat/completions"


def _png() -> str:
    """A picture of one dot, as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        ends = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + ends

    size = (1).to_bytes(4, "big") * 2 + bytes((8, 0, 0, 0, 0))
    parts = chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


WEATHER = {
    "type": "function",
    "function": {
        "name": "tool_get_weather_post",
        "description": "Weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
OPEN_WEB_UI: dict[str, Any] = {
    "user_agent": "Python/3.11 aiohttp/3.12",
    "accept": "*/*",
    "accept_encoding": "gzip, deflate, br",
    "x_openwebui_user_name": "Ada%20L",
    "x_openwebui_user_id": "4f6c",
    "x_openwebui_user_role": "admin",
    "x_openwebui_chat_id": "9d1c",
}
LIBRE_CHAT: dict[str, Any] = {
    "user_agent": "ChatOpenAI/JS 5.20.1",
    "accept": "application/json",
    "x_stainless_lang": "js",
    "x_stainless_package_version": "5.20.1",
    "x_stainless_os": "Linux",
    "x_stainless_arch": "x64",
    "x_stainless_runtime": "node",
    "x_stainless_retry_count": "0",
    "x_stainless_timeout": "600",
}
PICTURE = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": _png(), "detail": "auto"}},
]
TITLE = {
    "type": "object",
    "properties": {
        "title": {
            "type": "string",
            "description": "A concise title for the conversation in 5 words or less",
        }
    },
    "required": ["title"],
    "additionalProperties": False,
    "$schema": "http://json-schema.org/draft-07/schema#",
}
"""The schema that a class of zod becomes."""
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "Open WebUI, a chat": (
        OPEN_WEB_UI,
        {
            "stream": True,
            "messages": [
                {"role": "system", "content": "You are kind."},
                {"role": "user", "content": "Hi"},
                {
                    "role": "assistant",
                    "content": '<details type="reasoning" done="true"><summary>Thought</summary>\n> Hm\n</details>\nHello',
                },
                {"role": "user", "content": PICTURE},
            ],
            "temperature": 0.7,
            "top_p": 0.9,
            "max_tokens": 1024,
            "frequency_penalty": 0,
            "seed": 1,
            "stop": ["END"],
            "logit_bias": {"5432": 10},
            "reasoning_effort": "medium",
            "stream_options": {"include_usage": True},
        },
        "seed, stop, frequency_penalty, logit_bias, top_p",
    ),
    "Open WebUI, a title": (
        OPEN_WEB_UI,
        {
            "stream": False,
            "messages": [{"role": "user", "content": "### Task:\nGenerate a concise title"}],
            "max_completion_tokens": 1000,
        },
        "",
    ),
    "Open WebUI, for a pipeline": (
        OPEN_WEB_UI,
        {
            "stream": True,
            "messages": [{"role": "user", "content": "Hi"}],
            "user": {"name": "Ada", "id": "4f6c", "email": "ada@x.example", "role": "admin"},
        },
        "user",
    ),
    "LibreChat, a chat": (
        LIBRE_CHAT,
        {
            "user": "665f",
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 1,
            "top_p": 1,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "n": 1,
            "logprobs": False,
            "tools": [],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "Ada"},
                {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
                {"role": "user", "content": PICTURE},
            ],
        },
        "frequency_penalty, presence_penalty, top_p, user",
    ),
    "LibreChat, a title in a form": (
        LIBRE_CHAT | {"x_stainless_helper_method": "chat.completions.parse"},
        {
            "user": "665f",
            "stream": False,
            "temperature": 0.2,
            "n": 1,
            "messages": [{"role": "user", "content": "Provide a title in 5 words"}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "extract", "strict": True, "schema": TITLE},
            },
        },
        "user",
    ),
    "LibreChat, a title": (
        LIBRE_CHAT,
        {
            "user": "665f",
            "stream": False,
            "temperature": 0.2,
            "max_tokens": 60,
            "messages": [{"role": "user", "content": "Provide a title in 5 words"}],
        },
        "user",
    ),
}


async def ask(daemon: Daemon, body: dict[str, Any], headers: dict[str, Any]) -> Answer:
    sent = msgspec.json.encode({"model": "general"} | body)
    return await answer_to(daemon, request(daemon, CHAT, sent, connection="close", **headers))


def chunks_of(answer: Answer) -> list[dict[str, Any]]:
    """The chunks of a stream, whose end is said."""
    lines = [each for each in answer.body.splitlines() if each.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    return [msgspec.json.decode(each.removeprefix("data: ")) for each in lines[:-1]]


def text_of(answer: Answer, *, streams: bool) -> str:
    """What the model says, as such a front end puts it together."""
    if not streams:
        message = msgspec.json.decode(answer.body)["choices"][0]["message"]
        assert message["role"] == "assistant"
        said: str = message["content"]
        return said
    chunks = chunks_of(answer)
    assert all(each["object"] == "chat.completion.chunk" for each in chunks)
    deltas = [each["choices"][0]["delta"] for each in chunks if each["choices"]]
    return "".join(each.get("content") or "" for each in deltas)


@pytest.mark.parametrize("name", FORMS)
async def test_a_front_end_is_answered(name: str) -> None:
    headers, body, ignored = FORMS[name]
    has_form = "response_format" in body
    said = '{"title":"A Greeting"}' if has_form else "It is noon."
    model = callboard.ScriptedModel([reply([said[:6], said[6:]])])
    async with open_daemon(model) as daemon:
        answer = await ask(daemon, body, headers)
    assert answer.status == 200, answer.body
    assert text_of(answer, streams=body["stream"]) == said
    assert answer.headers.get("x-callboard-ignored", "") == ignored
    (asked,) = model.requests
    assert asked.answer_schema == (TITLE if has_form else None)
    last = asked.rounds[-1].items[-1]
    has_picture = body["messages"][-1]["content"] == PICTURE
    assert [each.media_type for each in getattr(last, "attachments", ())] == (
        ["image/png"] if has_picture else []
    )
    if body.get("stream_options"):
        assert chunks_of(answer)[-1]["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("headers", [OPEN_WEB_UI, LIBRE_CHAT], ids=["Open WebUI", "LibreChat"])
async def test_a_front_end_calls_its_own_tools(headers: dict[str, Any]) -> None:
    """They send calls back with an index, with empty words, and results as texts or lists of texts."""
    model = callboard.ScriptedModel(
        [reply(calls=[("tool_get_weather_post", {"city": "Oslo"})]), reply("It rains.")]
    )
    asked: list[dict[str, Any]] = [{"role": "user", "content": "How is Oslo?"}]
    form = {"stream": True, "tools": [WEATHER], "tool_choice": "auto"}
    async with open_daemon(model) as daemon:
        first = await ask(daemon, form | {"messages": asked}, headers)
        chunks = chunks_of(first)
        (call,) = [
            each
            for chunk in chunks
            for choice in chunk["choices"]
            for each in choice["delta"].get("tool_calls") or ()
        ]
        assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
        result: Any = "Rain." if headers is OPEN_WEB_UI else [{"type": "text", "text": "Rain."}]
        again = [
            *asked,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": result, "name": "weather"},
        ]
        second = await ask(daemon, form | {"messages": again}, headers)
    assert text_of(second, streams=True) == "It rains."
    contents = [getattr(item, "content", "") for item in model.requests[1].rounds[-1].items]
    assert '{"status":"success","result":"Rain."}' in contents


async def test_a_front_end_has_a_title_by_a_call() -> None:
    """The older form of a structured title: one tool that must be called, whose result nobody brings."""
    tool = {"type": "function", "function": {"name": "extract", "parameters": TITLE}}
    body = {
        "user": "665f",
        "stream": False,
        "temperature": 0.2,
        "messages": [{"role": "user", "content": "Provide a title in 5 words"}],
        "tools": [tool],
        "tool_choice": {"type": "function", "function": {"name": "extract"}},
    }
    model = callboard.ScriptedModel([reply(calls=[("extract", {"title": "A Greeting"})])] * 2)
    async with open_daemon(model, settings=ServerSettings(port=0, max_http_turns=1)) as daemon:
        for _ in range(2):  # the first one holds no place for ten minutes
            answer = await ask(daemon, body, LIBRE_CHAT)
            assert answer.status == 200, answer.body
            (choice,) = msgspec.json.decode(answer.body)["choices"]
            (call,) = choice["message"]["tool_calls"]
            assert call["function"]["name"] == "extract"
            assert msgspec.json.decode(call["function"]["arguments"]) == {"title": "A Greeting"}
            assert daemon.gateway.turns.count == 0
        assert await daemon.runtime.sessions() == []
    assert [each.forced_tool for each in model.requests] == ["extract", "extract"]


@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_a_front_end_says_which_of_its_tools_may_be_called(mode: str) -> None:
    other = {"type": "function", "function": {"name": "tool_get_time_post"}}
    named = {"type": "function", "function": {"name": "tool_get_weather_post"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named]}}
    body = {
        "messages": [{"role": "user", "content": "Does it rain?"}],
        "tools": [WEATHER, other],
        "tool_choice": allowed,
    }
    model = callboard.ScriptedModel([reply("No.")])
    async with open_daemon(model) as daemon:
        answer = await ask(daemon, body, OPEN_WEB_UI)
    assert answer.status == 200, answer.body
    [asked] = model.requests
    names = {each.name for each in asked.tools}
    assert "tool_get_weather_post" in names
    assert "tool_get_time_post" not in names
    assert asked.tool_choice == mode


@pytest.mark.parametrize("headers", [OPEN_WEB_UI, LIBRE_CHAT], ids=["Open WebUI", "LibreChat"])
async def test_a_front_end_lists_models(headers: dict[str, Any]) -> None:
    async with open_daemon(callboard.ScriptedModel([])) as daemon:
        sent = request(
            daemon,
            "/v1/models",
            method="GET",
            content_type="application/json",
            **headers,
        )
        answer = await answer_to(daemon, sent)
    assert answer.status == 200
    listed = msgspec.json.decode(answer.body)
    assert listed["object"] == "list"
    assert {"id", "object", "created", "owned_by"} <= listed["data"][0].keys()
    assert "general" in {each["id"] for each in listed["data"]}

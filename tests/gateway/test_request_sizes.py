"""What one frame may name at once: every text and list of a request has an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import inspect
from trio_websocket import ConnectionClosed

import callboard
from callboard.actors.people.user_questions import MAX_ANSWER_CHARACTERS
from callboard.actors.permissions.asking import MAX_REASON_CHARACTERS
from callboard.actors.permissions.question import MAX_PATTERN_CHARACTERS
from callboard.actors.upkeep import keeping as session_keeping
from callboard.config.base_url import MAX_URL_LENGTH
from callboard.config.policy.path_pattern import MAX_PATH_CHARS
from callboard.gateway.connection.subscriptions import Subscriptions
from callboard.gateway.methods.all import all_methods, all_of
from callboard.gateway.shared.pages import MAX_PAGE
from callboard.gateway.shared.uploads import MAX_UPLOAD_BYTES
from callboard.providers.catalog.keys import MAX_KEY_LENGTH
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import MAX_FALLBACKS, MAX_MODEL_CHARS
from callboard.runtime.history import Attachment
from callboard.runtime.memory.memories import MAX_MEMORY_CHARS
from callboard.runtime.store.feeds import Topic
from callboard.runtime.wire import fields as sizes
from callboard.runtime.wire.fields import MAX_ITEMS, MAX_LINE_CHARS, MAX_WORD_CHARS, Role
from callboard.runtime.wire.rpc import CONFLICT, INVALID_PARAMS, INVALID_STATE, NOT_FOUND
from support.gateway.daemon_scene import open_daemon, open_greeted, open_raw

MIB = 1024 * 1024
CHECKED_OTHERWISE = (Attachment,)
"""Their parts have bounds of their own (`attachment_rules`); what is on record has these types too."""
LARGE = {sizes.MAX_PROMPT_CHARS, sizes.MAX_PART_CHARS}
"""Of what is as long as a frame: no more than one such text in a request."""
PARAMETERS = {method.name: method.params for method in all_of(all_methods())}


def unbounded(kind: inspect.Type, path: str) -> Iterator[str]:  # ruff: ignore[complex-structure]  one case a kind
    """Where values of a type may be as large as a frame."""
    match kind:
        case inspect.StructType() if kind.cls in CHECKED_OTHERWISE:
            return
        case inspect.StructType():
            for field in kind.fields:
                yield from unbounded(field.type, f"{path}.{field.encode_name}")
        case inspect.UnionType():
            for each in kind.types:
                yield from unbounded(each, path)
        case inspect.StrType() | inspect.BytesType():
            if kind.max_length is None or (kind.max_length > MIB and kind.max_length not in LARGE):
                yield path
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            if kind.max_length is None or kind.max_length > MAX_ITEMS:
                yield path
            yield from unbounded(kind.item_type, f"{path}[]")
        case inspect.DictType():
            if kind.max_length is None or kind.max_length > MAX_ITEMS:
                yield path
            yield from unbounded(kind.key_type, f"{path}{{}}")
            yield from unbounded(kind.value_type, f"{path}{{}}")
        case inspect.IntType() | inspect.FloatType():
            if kind.le is None or kind.ge is None:
                yield path
        case inspect.BoolType() | inspect.NoneType() | inspect.EnumType() | inspect.LiteralType():
            return
        case _:
            yield f"{path} ({type(kind).__name__})"


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_text_list_and_number_of_a_request_has_a_bound(name: str) -> None:
    assert list(unbounded(inspect.type_info(PARAMETERS[name]), name)) == []


class _Loose(msgspec.Struct):
    text: str
    texts: tuple[str, ...]
    many: Annotated[tuple[sizes.Word, ...], msgspec.Meta(max_length=MAX_ITEMS + 1)]
    table: dict[str, int]
    number: int
    raw: msgspec.Raw
    word: sizes.Word | None = None
    words: sizes.Words = ()


def test_what_has_no_bound_is_found() -> None:
    found = list(unbounded(inspect.type_info(_Loose), "x"))
    assert found == [
        "x.text",
        "x.texts",
        "x.texts[]",
        "x.many",
        "x.table",
        "x.table{}",
        "x.table{}",
        "x.number",
        "x.raw (RawType)",
    ]


def test_a_request_has_room_for_all_that_its_method_takes() -> None:
    assert session_keeping.MAX_BATCH == MAX_PAGE == MAX_ITEMS
    assert MAX_KEY_LENGTH == sizes.MAX_SECRET_CHARS
    assert MAX_UPLOAD_BYTES == sizes.MAX_PART_CHARS
    lines = (MAX_PATH_CHARS, MAX_URL_LENGTH, MAX_REASON_CHARACTERS, MAX_PATTERN_CHARACTERS)
    assert max(lines) <= MAX_LINE_CHARS
    assert max(MAX_ANSWER_CHARACTERS, MAX_MEMORY_CHARS) <= sizes.MAX_TEXT_CHARS


# ── what such a frame came to before ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [len(Topic), len(Topic) + 1])
async def test_a_hello_that_names_a_topic_often_hears_it_once(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Topic] = []
    subscribe = Subscriptions.subscribe_topic

    def note(hearing: Subscriptions, topic: Topic, position: int) -> Callable[[], None]:
        begun.append(topic)
        return subscribe(hearing, topic, position)

    monkeypatch.setattr(Subscriptions, "subscribe_topic", note)
    hello = {"protocol": {"min": 1, "max": 1}, "subscribe": ["sessions"] * count}
    async with open_daemon() as daemon, open_raw(daemon) as raw:
        await raw.send({"jsonrpc": "2.0", "id": "h", "method": "initialize", "params": hello})
        answer = await raw.receive()
        if count > len(Topic):
            assert answer["error"]["code"] == INVALID_PARAMS
            with pytest.raises(ConnectionClosed):
                await raw.receive()
            assert begun == []
            return
        assert "result" in answer
        assert (await raw.receive())["method"] == "topic/current"
        assert begun == [Topic.SESSIONS]


REQUESTS: dict[str, tuple[str, dict[str, Any], dict[str, Any], int | None]] = {
    "fallbacks": (
        "session/prompt",
        {"content": "Go.", "options": {"fallbacks": ["openai/x"] * MAX_FALLBACKS}},
        {"content": "Go.", "options": {"fallbacks": ["openai/x"] * (MAX_FALLBACKS + 1)}},
        None,
    ),
    "the name of a model": (
        "session/prompt",
        {"content": "Go.", "options": {"model": "nowhere/".ljust(MAX_MODEL_CHARS, "x")}},
        {"content": "Go.", "options": {"model": "nowhere/".ljust(MAX_MODEL_CHARS + 1, "x")}},
        NOT_FOUND,
    ),
    "sessions": (
        "session/set_agent",
        {"session_ids": ["ses_none"] * MAX_ITEMS, "agent": "general"},
        {"session_ids": ["ses_none"] * (MAX_ITEMS + 1), "agent": "general"},
        NOT_FOUND,
    ),
    "an id": (
        "session/get",
        {"session_id": "x" * MAX_WORD_CHARS},
        {"session_id": "x" * (MAX_WORD_CHARS + 1)},
        NOT_FOUND,
    ),
    **{
        method: (
            method,
            {"query": "ab " * (MAX_LINE_CHARS // 3)},
            {"query": "ab " * MAX_LINE_CHARS},
            None,
        )
        for method in ("session/search", "session/list", "memory/search")
    },
}
"""A method, what it takes, what it refuses, and what else is wrong with the former."""


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_that_names_too_much_does_nothing(name: str) -> None:
    method, most, more, code = REQUESTS[name]
    model = callboard.ScriptedModel([reply("Done.")])
    async with open_daemon(model) as daemon:
        async with open_greeted(daemon, daemon.new_token("operator", Role.OPERATOR)) as raw:
            made = await raw.call("session/new")
            if method == "session/prompt":
                session_id = made["result"]["session_id"]
                most, more = ({**each, "session_id": session_id} for each in (most, more))
            error = (await raw.call(method, **more))["error"]
            assert (error["code"], model.requests) == (INVALID_PARAMS, [])
            assert "of length <=" in error["message"]
            answer = await raw.call(method, **most)
            assert answer.get("error", {}).get("code") == code, answer


def test_an_agent_has_as_many_fallbacks() -> None:
    names = ("openai/x",) * MAX_FALLBACKS
    assert callboard.Agent(fallbacks=names).fallbacks == names
    with pytest.raises(ValueError, match="at most 16"):
        callboard.Agent(fallbacks=(*names, "openai/y"))


# ── one after the other ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", [None, "a key"])
async def test_no_part_of_a_file_overtakes_the_one_before_it(key: str | None) -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        keys = [{}, {}] if key is None else [{"idempotency_key": f"{key} {n}"} for n in range(2)]
        for n, text in enumerate(("x" * 100_000, "y")):
            params = {"upload_id": "u", "part": n, "text": text, "is_last": n == 1, **keys[n]}
            await raw.send(
                {"jsonrpc": "2.0", "id": n, "method": "session/import", "params": params}
            )
        first, last = [await raw.receive() for _ in range(2)]
        assert first["result"]["received_bytes"] == 100_000
        assert last["error"]["code"] not in {CONFLICT, INVALID_STATE}  # it is whole, and no file

"""Conversations summed up and counted by OpenAI's API, and what that API has elsewhere, as OpenAI's own client asks for it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

import callboard
from callboard.actors.model.answer import request_tokens
from callboard.gateway.openai.content import MAX_VALUES
from callboard.gateway.openai.responses.request import COMPACTED
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import fail, reply
from callboard.runtime.history import Answer, Input, Result
from callboard.runtime.stream import Done, StopReason
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_daemon
from support.gateway.door_scene import request
from support.gateway.gated_model import GatedModel
from support.gateway.raw_door import answer_to
from support.later import Later

if TYPE_CHECKING:
    import openai
else:
    openai = Later("openai")  # a second of each worker's time

LONG = "The harbour is closed on Mondays. " * 40
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    "strict": False,
}


@asynccontextmanager
async def asked(daemon: Daemon, token: str = "") -> AsyncGenerator[openai.AsyncOpenAI]:
    base = f"http://127.0.0.1:{daemon.gateway.port}/v1"
    async with openai.AsyncOpenAI(
        base_url=base, api_key=token or daemon.token, max_retries=0
    ) as client:
        yield client


class Hearing:
    """Steps of a script, with what the model was asked."""

    def __init__(self, *answers: Any) -> None:
        self.heard: list[ModelRequest] = []
        self.model = callboard.ScriptedModel([self._step(each) for each in answers])

    def _step(self, answer: Any) -> Callable[[ModelRequest], Any]:
        def step(request: ModelRequest) -> Any:
            self.heard.append(request)
            return answer

        return step

    @property
    def texts(self) -> list[str]:
        """What the last request said, in order."""
        items = [item for each in self.heard[-1].rounds for item in each.items]
        return [item.text for item in items if isinstance(item, Input | Answer)]


def said(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


TALK = [said("user", LONG), said("assistant", "I see: not on Mondays.")]


KEPT = '{"summary": "Mondays.", "items": []}'


def compaction(kept: str) -> dict[str, Any]:
    return {"type": "compaction", "encrypted_content": COMPACTED + kept}


async def test_a_conversation_is_summed_up_and_the_next_request_takes_it() -> None:
    scene = Hearing(reply("The harbour: closed on Mondays."), reply("On Tuesday."))
    async with open_daemon(scene.model) as daemon, asked(daemon) as client:
        small = await client.responses.compact(model="general", input=TALK)  # type: ignore[arg-type]
        kept = await daemon.runtime.sessions()
        follow: Any = [*small.output, said("user", "When may I come?")]
        answer = await client.responses.create(model="general", input=follow)
    assert "Sum up the record below" in scene.heard[0].system
    assert LONG.strip() in scene.heard[0].rounds[0].items[0].text  # type: ignore[union-attr]
    (item,) = small.output
    assert item.type == "compaction"
    assert "The harbour: closed on Mondays." in (item.encrypted_content or "")
    assert (small.object, small.usage.input_tokens, small.usage.output_tokens) == (
        *("response.compaction", 10, 5),
    )
    assert type(small).model_validate(small.to_dict()) == small
    assert kept == []  # the session that it took is gone
    assert scene.texts[-2:] == ["The harbour: closed on Mondays.", "When may I come?"]
    assert LONG.strip() not in "".join(scene.texts)
    assert answer.output_text == "On Tuesday."


async def test_what_was_said_last_stays_as_it_was() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "wet"}
    asks = [said("user", "Wet?"), call, result, said("assistant", "Yes."), said("user", "Cold?")]
    scene = Hearing(reply("Mondays."), reply("No."))
    async with open_daemon(scene.model) as daemon, asked(daemon) as client:
        small = await client.responses.compact(model="general", input=[*TALK, *asks])  # type: ignore[list-item]
        follow: Any = [*small.output, said("user", "And today?")]
        await client.responses.create(model="general", input=follow)
    assert [each.type for each in small.output] == ["compaction"]
    assert scene.texts[-5:] == ["Mondays.", "Wet?", "", "Yes.", "Cold?\n\nAnd today?"]
    (done,) = [
        item for each in scene.heard[-1].rounds for item in each.items if isinstance(item, Result)
    ]
    assert (done.call_id, done.name) == ("c1", "get_weather")
    assert "wet" in done.content


async def test_a_response_before_is_summed_up_and_its_session_stays_as_it_was() -> None:
    scene = Hearing(reply("I see."), reply("Closed on Mondays."), reply("I still see all."))
    async with open_daemon(scene.model) as daemon, asked(daemon) as client:
        first = await client.responses.create(model="general", input=LONG)
        small = await client.responses.compact(model="general", previous_response_id=first.id)
        assert LONG.strip() in scene.heard[1].rounds[0].items[0].text  # type: ignore[union-attr]
        await client.responses.create(model="general", input="And?", previous_response_id=first.id)
    assert [each.type for each in small.output] == ["compaction"]
    assert scene.texts == [LONG, "I see.", "And?"]


async def test_the_model_of_rules_sums_up_by_the_latest_lines() -> None:
    async with open_daemon() as daemon, asked(daemon) as client:
        first = await client.responses.create(model="general", input="What time is it in Tokyo?")
        small = await client.responses.compact(model="general", previous_response_id=first.id)
        follow: Any = [*small.output, said("user", "What time is it in Lisbon?")]
        answer = await client.responses.create(model="general", input=follow)
    (item,) = small.output
    assert item.type == "compaction"
    assert "person: What time is it in Tokyo?" in (item.encrypted_content or "")
    assert "not available" not in (item.encrypted_content or "")
    assert "rehearsal model" not in (item.encrypted_content or "")
    assert "in Lisbon" in answer.output_text


async def test_what_nobody_answered_yet_is_summed_up_as_a_whole() -> None:
    scene = Hearing(reply("Mondays."), reply("Mondays, again."))
    async with open_daemon(scene.model) as daemon, asked(daemon) as client:
        small = await client.responses.compact(model="general", input=LONG)
        again = await client.responses.compact(
            model="general",
            input=list(small.output),  # type: ignore[arg-type]
        )
    assert [each.type for each in small.output] == ["compaction"]
    (item,) = again.output
    assert item.type == "compaction"
    assert "Mondays, again." in (item.encrypted_content or "")


async def test_what_cannot_be_summed_up_says_why() -> None:
    gated = GatedModel([Done(StopReason.END)])
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "compaction", "encrypted_content": "gAAAA"}]}, "input[0]"),
        ({"input": [{"type": "compaction"}]}, "input[0]"),
        ({"input": [compaction("[1]")]}, "input[0]"),
        ({"input": [compaction(KEPT), compaction(KEPT)]}, "input[1]"),
        (
            {"input": [compaction(KEPT.replace("[]", json.dumps([compaction(KEPT)])))]},
            "input[0]",
        ),
        ({"input": [compaction(KEPT.replace("[]", '[{"type": "hologram"}]'))]}, "input[0]"),
        ({"input": [compaction(KEPT.replace("[]", f"[{'0,' * MAX_VALUES}0]"))]}, "input[0]"),
    ]
    async with open_daemon(gated) as daemon, asked(daemon) as client:
        for wrong, param in wrongs:
            with pytest.raises(openai.BadRequestError) as refused:
                await client.responses.compact(model="general", **wrong)
            assert refused.value.param == param
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.responses.compact(model="nobody", input="Hi.")
        assert unknown.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError):
            await client.responses.compact(model="general", previous_response_id="resp_a_b")
        runs = await client.responses.create(model="general", input="Hi.", background=True)
        with pytest.raises(openai.ConflictError, match="wait for its end"):
            await client.responses.compact(model="general", previous_response_id=runs.id)
        reader = daemon.new_token("reader", Role.OBSERVER)
        async with asked(daemon, reader) as others:
            with pytest.raises(openai.PermissionDeniedError):
                await others.responses.compact(model="general", input="Hi.")
        gated.let_all()


async def test_a_summary_that_fails_is_not_asked_for_again() -> None:
    scene = Hearing(fail("No notes today."), fail("No notes today."))
    async with open_daemon(scene.model) as daemon, asked(daemon) as client:
        with pytest.raises(openai.InternalServerError, match="No notes today") as failed:
            await client.responses.compact(model="general", input=LONG)
        assert await daemon.runtime.sessions() == []
    assert failed.value.response.headers["x-should-retry"] == "false"


async def test_parameters_of_a_compaction_that_change_nothing_are_named() -> None:
    async with open_daemon(Hearing(reply("Notes.")).model) as daemon, asked(daemon) as client:
        raw = await client.responses.with_raw_response.compact(
            model="general", input=LONG, instructions="Rhyme.", service_tier="flex"
        )
    assert raw.headers["x-callboard-ignored"] == "instructions, service_tier"


async def test_the_tokens_of_a_request_are_counted_without_a_model() -> None:
    scene = Hearing(reply("Yes."), reply("Still."))
    async with open_daemon(scene.model) as daemon, asked(daemon) as client:
        wanted: dict[str, Any] = {"instructions": "Rhyme.", "tools": [WEATHER]}
        count = await client.responses.input_tokens.count(model="general", input=LONG, **wanted)
        assert scene.heard == []
        assert await daemon.runtime.sessions() == []
        first = await client.responses.create(model="general", input=LONG, **wanted)
        later = await client.responses.input_tokens.count(
            model="general", input="And?", previous_response_id=first.id
        )
        await client.responses.create(model="general", input="And?", previous_response_id=first.id)
        with pytest.raises(openai.BadRequestError, match="there is a tool"):
            await client.responses.input_tokens.count(
                model="general", tools=[WEATHER | {"name": "read_file"}]
            )
    assert count.object == "response.input_tokens"
    assert count.input_tokens == request_tokens(scene.heard[0])
    assert later.input_tokens == request_tokens(scene.heard[1])


async def test_what_other_servers_have_is_refused_with_what_to_do() -> None:
    async with open_daemon() as daemon, asked(daemon) as client:
        calls: dict[str, Callable[[], Any]] = {
            "chat completions are not stored": lambda: client.chat.completions.list(),
            "nothing at /v1/chat/completions/x: chat": lambda: client.chat.completions.retrieve(
                "x"
            ),
            "nothing at /v1/chat/completions/y: chat": lambda: client.chat.completions.delete("y"),
            "models are agents": lambda: client.models.delete("general"),
            "use chat/completions": lambda: client.completions.create(model="general", prompt="x"),
            "nothing at /v1/embeddings: here are": lambda: client.embeddings.create(
                model="general", input="x"
            ),
            "nothing at /v1/conversations": lambda: client.conversations.create(),
        }
        for words, call in calls.items():
            with pytest.raises(openai.APIStatusError, match=words) as refused:
                await call()
            assert refused.value.status_code in {404, 405}
            assert refused.value.code in {"not_found", "method_not_allowed"}
            assert refused.value.type == "invalid_request_error"
        wrong = await answer_to(daemon, request(daemon, "/v1/models", method="DELETE"))
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET")


async def test_a_compaction_ends_when_its_client_leaves() -> None:
    gated = GatedModel([Done(StopReason.END)])
    async with open_daemon(gated) as daemon:
        with trio.move_on_after(10):
            async with asked(daemon) as client, trio.open_nursery() as nursery:

                async def ask() -> None:
                    await client.responses.compact(model="general", input=LONG)

                nursery.start_soon(ask)
                while not gated._taken:
                    await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        while await daemon.runtime.sessions():
            await trio.testing.wait_all_tasks_blocked()
        assert gated._taken == 1

"""What becomes of each event of a turn in the two streams of OpenAI's API; each chunk and event is one of the client's models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pytest
import trio

import callboard
from callboard.config.sections import OpenAiSettings
from callboard.config.settings import Settings
from callboard.gateway.openai.responses.fold import MAX_OUTPUT_CHARS
from callboard.providers.testing.script import fail, raw_events, reply
from callboard.runtime.stream import Done, StopReason, TextDelta
from support.gateway.daemon_scene import open_daemon
from support.gateway.door_scene import request
from support.gateway.raw_door import answer_to
from support.later import Later

if TYPE_CHECKING:
    import openai
else:
    openai = Later("openai")  # a second of each worker's time


Heard = TypeVar("Heard")


@callboard.tool
def look() -> str:
    """Look out of the window."""
    return "rain"


@callboard.tool
def shout() -> str:
    """Shout for long."""
    return "a" * (2 * MAX_OUTPUT_CHARS)


LOOKS = reply("I look.", calls=[("look", {})])
SILENT = Settings(openai=OpenAiSettings(tool_progress="off", items="plain"))


class Row(NamedTuple):
    """What a model says, and what a client hears of it."""

    steps: list[Any]
    chat: list[Any]
    items: list[Any]
    end: tuple[str, str | None]
    settings: Settings | None = None


ROWS = {
    "an answer": Row(
        [reply("Noon.")],
        ["Noon.", "stop"],
        [("message", "completed", "final_answer", "Noon.")],
        ("completed", None),
    ),
    "a thought": Row(
        [reply("Noon.", thinking=["Let me ", "see."])],
        [("reasoning_content", "Let me see."), "Noon.", "stop"],
        [
            ("reasoning", "completed", None, "Let me see."),
            ("message", "completed", "final_answer", "Noon."),
        ],
        ("completed", None),
    ),
    "a refusal": Row(
        [reply(refusal="I won't.")],
        [("refusal", "I won't."), "content_filter"],
        [("message", "completed", "final_answer", "I won't.")],
        ("incomplete", "content_filter"),
    ),
    "what is refused by the provider": Row(
        [raw_events(TextDelta("No."), Done(StopReason.REFUSED))],
        ["No.", "content_filter"],
        [("message", "completed", "final_answer", "No.")],
        ("incomplete", "content_filter"),
    ),
    "an answer that is cut": Row(
        [raw_events(TextDelta("It is"), Done(StopReason.MAX_TOKENS))],
        ["It is", "length"],
        [("message", "incomplete", "final_answer", "It is")],
        ("incomplete", "max_output_tokens"),
    ),
    "an attempt that is made again": Row(
        [fail("busy", error_type="overloaded", retryable=True, text="It is"), reply("Noon.")],
        ["It is [withdrawn]\n", "Noon.", "stop"],
        [
            ("message", "incomplete", None, "It is"),
            ("message", "completed", "final_answer", "Noon."),
        ],
        ("completed", None),
    ),
    "a call of the agent's": Row(
        [LOOKS, reply("It rains.")],
        [
            "I look.",
            ("reasoning_content", "\nlook {}\nlook: success rain\n"),
            "\n\nIt rains.",
            "stop",
        ],
        [
            ("message", "completed", "commentary", "I look."),
            ("mcp_call", "completed", "look", '{"status":"success","result":"rain"}'),
            ("message", "completed", "final_answer", "It rains."),
        ],
        ("completed", None),
    ),
    "a call that fails": Row(
        [reply(calls=[("read_file", {"path": "no.txt"})]), reply("No.")],
        [("reasoning_content", None), "No.", "stop"],
        [
            ("mcp_call", "failed", "read_file", None),
            ("message", "completed", "final_answer", "No."),
        ],
        ("completed", None),
    ),
    "calls that are not shown": Row(
        [LOOKS, reply("It rains.")],
        ["I look.", "\n\nIt rains.", "stop"],
        [
            ("message", "completed", "commentary", "I look."),
            ("message", "completed", "final_answer", "It rains."),
        ],
        ("completed", None),
        SILENT,
    ),
    "a turn that fails": Row([fail("It broke.")], ["It broke."], [], ("failed", "It broke.")),
}


async def heard_by(row: Row, use: Callable[[openai.OpenAI], Heard]) -> Heard:
    """What the blocking client gives, in a thread: the other leaves a stream to the garbage collector."""
    model = callboard.ScriptedModel(row.steps)
    async with open_daemon(model, tools=[look, shout], configured=row.settings) as daemon:

        def ask() -> Heard:
            base = f"http://127.0.0.1:{daemon.gateway.port}/v1"
            with openai.OpenAI(base_url=base, api_key=daemon.token, max_retries=0) as client:
                return use(client)

        return await trio.to_thread.run_sync(ask)


def checked(body: Any) -> Any:
    """The body, as its own model has it: the client itself checks nothing."""
    return type(body).model_validate(body.to_dict())


def chat_of(client: openai.OpenAI) -> list[Any]:
    """The contents, other fields with their names, and the reason of the end, or the error."""
    heard: list[Any] = []
    try:
        with client.chat.completions.create(
            model="general", messages=[{"role": "user", "content": "Well?"}], stream=True
        ) as stream:
            for chunk in stream:
                (choice,) = checked(chunk).choices
                said = choice.delta.to_dict()
                if said.pop("role", None):
                    assert said.pop("content") == ""
                heard += [each if key == "content" else (key, each) for key, each in said.items()]
                heard += [choice.finish_reason] if choice.finish_reason else []
    except openai.APIError as error:
        heard.append(error.message)
    return merged(heard)


@pytest.mark.parametrize("name", ROWS)
async def test_a_chat_is_told(name: str) -> None:
    heard = await heard_by(ROWS[name], chat_of)
    if name == "a call that fails":
        assert "\nread_file: error" in heard[0][1]
        heard[0] = ("reasoning_content", None)
    assert heard == ROWS[name].chat


def merged(heard: list[Any]) -> list[Any]:
    """What was said, without how it was cut."""
    found: list[Any] = []
    for each in heard:
        last = found[-1] if found else None
        if isinstance(each, tuple) and isinstance(last, tuple) and last[0] == each[0]:
            found[-1] = (each[0], last[1] + each[1])
        else:
            found.append(each)
    return found


def response_of(client: openai.OpenAI) -> tuple[list[Any], Any]:
    """The items, as they were done, and the response."""
    items, last = list[Any](), None
    with client.responses.create(model="general", input="Well?", stream=True) as stream:
        for event in stream:
            last = checked(event)
            if event.type == "response.output_item.done":
                items.append(told(event.item))
    assert last is not None
    again = checked(client.responses.retrieve(last.response.id))
    assert last.type == f"response.{again.status}"
    assert last.response.output == again.output
    return items, again


@pytest.mark.parametrize("name", ROWS)
async def test_a_response_is_told(name: str) -> None:
    row = ROWS[name]
    items, response = await heard_by(row, response_of)
    if name == "a call that fails":
        assert '"status":"error"' in items[0][3]
        items[0] = (*items[0][:3], None)
    assert items == row.items
    incomplete, error = response.incomplete_details, response.error
    why = incomplete.reason if incomplete else error.message if error else None
    assert (response.status, why) == row.end


def told(item: Any) -> tuple[Any, ...]:
    match item.type:
        case "message":
            said = "".join(getattr(each, "text", None) or each.refusal for each in item.content)
            return (item.type, item.status, item.phase, said)
        case "reasoning":
            return (item.type, item.status, None, item.summary[0].text)
        case _:
            assert item.server_label == "callboard"
            why = item.error and item.error.content[0]["text"]
            return (item.type, item.status, item.name, item.output or why)


async def test_a_long_output_of_a_call_is_cut() -> None:
    row = Row([reply(calls=[("shout", {})]), reply("Done.")], [], [], ("completed", None))
    answer = await heard_by(
        row, lambda client: client.responses.create(model="general", input="Shout.")
    )
    (call, _) = answer.output
    assert call.type == "mcp_call"
    assert 1000 < len(call.output or "") <= MAX_OUTPUT_CHARS + 200


async def test_a_wrong_token_and_a_wrong_method_say_what_would_be_right() -> None:
    async with open_daemon() as daemon:
        wrong = await answer_to(
            daemon, request(daemon, "/v1/models", method="GET", authorization="Bearer x")
        )
        other = await answer_to(daemon, request(daemon, "/v1/models", method="OPTIONS"))
    assert (wrong.status, wrong.headers["www-authenticate"]) == (401, "Bearer")
    assert (other.status, other.headers["allow"]) == (405, "GET, POST, DELETE")
    assert '"code":"method_not_allowed"' in other.body
    assert not [name for name in other.headers if name.startswith("access-control")]

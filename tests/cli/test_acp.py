"""`callboard acp`: an editor drives sessions, and every line that it hears is valid by the protocol's own schema."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from callboard.providers.testing.script import Step, reply, stall
from support.acp.editor import Message, bare_editor, chosen, editing, words
from support.cli.chat_scene import OVERWRITE, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command

ROOT = Path(__file__).resolve().parent.parent.parent


async def test_a_prompt_is_streamed_and_answered(command: Command) -> None:
    script = reply(["One ", "two."], thinking="Hm."), reply("Again.")
    async with scripted(command, *script), editing(command) as (editor, session):
        done = await editor.ask("session/prompt", sessionId=session, prompt=words("Count."))
        assert done == {"stopReason": "end_turn"}
        assert editor.text == "One two."
        assert (
            "".join(each["content"]["text"] for each in editor.of("agent_thought_chunk")) == "Hm."
        )
        first = {each["messageId"] for each in editor.of("agent_message_chunk")}
        assert not editor.of("user_message_chunk")  # it shows its own
        await editor.ask("session/prompt", sessionId=session, prompt=words("Once more."))
        assert len({each["messageId"] for each in editor.of("agent_message_chunk")} - first) == 1
        assert await editor.leave() == 0
    assert await command.outcomes() == ["answered", "answered"]


@pytest.mark.parametrize(
    ("option", "text"), [("allow", "new\n"), ("deny", "old\n"), ("allow_it", "old\n")]
)
async def test_a_call_is_asked_about_in_the_editor(
    command: Command, option: str, text: str
) -> None:
    """What the editor was not offered is a no."""
    async with scripted(command, reply(calls=[OVERWRITE]), reply("Done.")):
        async with editing(command) as (editor, session):
            editor.answers["session/request_permission"] = lambda _: chosen(option)
            await editor.ask("session/prompt", sessionId=session, prompt=words("Write."))
            asked = (await editor.asked("session/request_permission"))["params"]
    assert (command.workspace / "a.txt").read_text() == text
    path = str(command.workspace / "a.txt")
    diff = {"type": "diff", "path": path, "oldText": "old\n", "newText": "new\n"}
    assert asked["toolCall"]["content"][0] == diff
    assert '"path": "a.txt"' in asked["toolCall"]["content"][1]["content"]["text"]
    kinds = [option["kind"] for option in asked["options"]]
    assert kinds == ["reject_once", "allow_once", "allow_always"]
    [proposed] = editor.of("tool_call")
    assert (proposed["kind"], proposed["title"]) == ("edit", "write_file a.txt")
    assert proposed["locations"] == [{"path": path}]
    statuses = [each["status"] for each in editor.of("tool_call_update")]
    assert statuses == (["in_progress", "completed"] if option == "allow" else ["failed"])


async def test_always_is_remembered_for_the_session_and_never_offered_for_an_elevated_call(
    command: Command,
) -> None:
    push = ("git_push", {"remote": "origin", "branch": "main"})
    script = [
        reply(calls=[OVERWRITE]),
        reply(calls=[OVERWRITE]),
        reply(calls=[push]),
        reply("Done."),
    ]
    async with scripted(command, *script), editing(command) as (editor, session):

        def answer(message: Message) -> Message:
            offered = [option["optionId"] for option in message["params"]["options"]]
            return chosen("allow_session" if "allow_session" in offered else "deny")

        editor.answers["session/request_permission"] = answer
        await editor.ask("session/prompt", sessionId=session, prompt=words("Write and push."))
        asked = [
            each for each in editor.heard if each.get("method") == "session/request_permission"
        ]
    assert [each["params"]["toolCall"]["name"] for each in asked] == ["write_file", "git_push"]
    assert [len(each["params"]["options"]) for each in asked] == [3, 2]


async def test_always_is_not_offered_in_a_session_that_has_read_what_strangers_wrote(
    command: Command,
) -> None:
    page = {"type": "resource", "resource": {"uri": "https://example.org/a", "text": "Hi."}}
    async with scripted(command, reply(calls=[OVERWRITE]), reply("Done.")):
        async with editing(command) as (editor, session):
            editor.answers["session/request_permission"] = lambda _: chosen("deny")
            prompt = [*words("Write what this says:"), page]
            await editor.ask("session/prompt", sessionId=session, prompt=prompt)
            asked = (await editor.asked("session/request_permission"))["params"]
    assert [option["kind"] for option in asked["options"]] == ["reject_once", "allow_once"]


_REPEATED = reply(calls=[("read_file", {"path": "a.txt"})])


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([reply("Too lo", finish="length")], "max_tokens"),
        ([_REPEATED, _REPEATED, _REPEATED], "max_turn_requests"),
        ([reply(refusal="No.")], "refusal"),
    ],
    ids=["max tokens", "loop guard", "refused"],
)
async def test_how_a_turn_stopped_is_said(command: Command, steps: list[Step], reason: str) -> None:
    async with scripted(command, *steps):
        with (command.home / "config" / "callboard.toml").open("a") as file:
            file.write("[limits]\nmax_repeats = 3\n")
        async with editing(command) as (editor, session):
            done = await editor.ask("session/prompt", sessionId=session, prompt=words("Go."))
    assert done == {"stopReason": reason}


async def test_a_cancelled_prompt_is_answered_when_its_turn_is_gone(command: Command) -> None:
    async with scripted(command, stall("Well, "), reply("After.")):
        async with editing(command) as (editor, session):
            number = await editor.begin("session/prompt", sessionId=session, prompt=words("Talk."))
            await editor.said("Well,")
            await editor.notify("session/cancel", sessionId=session)
            assert (await editor.answer(number))["result"] == {"stopReason": "cancelled"}
            await editor.ask("session/prompt", sessionId=session, prompt=words("Go on."))
            await editor.said("After.")
    assert await command.outcomes() == ["cancelled", "answered"]


async def test_a_cancel_that_comes_with_its_prompt_is_not_lost(command: Command) -> None:
    async with scripted(command, *[stall("Well, ")] * 3, reply("After.")):
        async with editing(command) as (editor, session):
            for _ in range(3):
                number = await editor.begin_and_cancel(session, words("Talk."))
                assert (await editor.answer(number))["result"] == {"stopReason": "cancelled"}


async def test_a_cancel_takes_the_question_back(command: Command) -> None:
    async with scripted(command, reply(calls=[OVERWRITE]), reply("Done.")):
        async with editing(command) as (editor, session):
            number = await editor.begin("session/prompt", sessionId=session, prompt=words("Write."))
            asked = await editor.asked("session/request_permission")
            await editor.notify("session/cancel", sessionId=session)
            assert (await editor.answer(number))["result"] == {"stopReason": "cancelled"}
            taken = await editor.asked("$/cancel_request")
            assert taken["params"] == {"requestId": asked["id"]}
    assert (command.workspace / "a.txt").read_text() == "old\n"


async def test_two_prompts_have_their_turns_one_after_the_other(command: Command) -> None:
    async with scripted(command, reply("First."), reply("Second.")):
        async with editing(command) as (editor, session):
            one = await editor.begin("session/prompt", sessionId=session, prompt=words("One."))
            two = await editor.begin("session/prompt", sessionId=session, prompt=words("Two."))
            for number in (one, two):
                assert (await editor.answer(number))["result"] == {"stopReason": "end_turn"}
            assert editor.text == "First.Second."


async def test_what_is_no_request_is_refused_and_the_rest_goes_on(command: Command) -> None:
    async with scripted(command), bare_editor(command) as editor:
        early = await editor.refused("session/new", cwd="/", mcpServers=[])
        assert early["code"] == -32600
        for line, code in (
            (b"nonsense", -32700),
            (b'{"jsonrpc": "2.0", "id": 1, "params": ' + b"[" * 200_000, -32700),
            (b"\xff", -32700),
            (b"[]", -32600),
            (b'{"jsonrpc": "1.0", "id": 700, "method": "initialize"}', -32600),
            (b"x" * (33 * 1024 * 1024), -32700),
        ):
            start = len(editor.heard)
            await editor.send(line)
            answer = await editor.hear(lambda message: "error" in message, start)
            number = 700 if b'"id": 700' in line else None  # who waits for that one hears of it
            assert (answer["id"], answer["error"]["code"]) == (number, code), line[:80]
        await editor.ask("initialize", protocolVersion=2, clientCapabilities={})
        again = await editor.refused("initialize", protocolVersion=1)
        assert again["code"] == -32600
        assert (await editor.refused("session/fly"))["code"] == -32601
        await editor.notify("session/fly")
        unknown = await editor.refused("session/prompt", sessionId="session_no", prompt=words("Hi"))
        assert unknown["code"] == -32602
        assert (await editor.refused("session/list", cursor="9" * 5_000))["code"] == -32602
        data = str(command.home / "data")
        for cwd in ("relative", "/nowhere/at/all", "/", data, "/a" + "b" * 300, "/a\0b"):
            refused = await editor.refused("session/new", cwd=cwd, mcpServers=[])
            assert refused["code"] == -32602, refused


def test_the_structs_are_those_of_the_schema() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "acp-types"))
    assert script["written"]() == (ROOT / "cli/acp/wire.py").read_text()

"""What goes wrong around `callboard acp`: the editor goes away, the daemon goes away, others are faster."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import trio

from callboard.config.daemon_file import find_daemon
from callboard.providers.testing.script import reply, stall
from support.acp.editor import bare_editor, editing, words
from support.cli.chat_scene import OVERWRITE, scripted, serving
from support.cli.chat_scene import command as command
from support.cli.command import PATIENCE_SECONDS, Command
from support.waits import until


async def gone(pid: int) -> None:
    """Waits until a process is no more."""
    with trio.fail_after(PATIENCE_SECONDS):
        await until(lambda: not os.path.exists(f"/proc/{pid}/exe"))


async def test_an_editor_that_goes_away_in_mid_turn_takes_its_turn_and_daemon_along(
    command: Command,
) -> None:
    async with scripted(command, stall("Well, ")), editing(command) as (editor, session):
        daemon = find_daemon(command.home / "data")
        assert daemon is not None
        assert daemon.command == "acp"
        await editor.begin("session/prompt", sessionId=session, prompt=words("Talk."))
        await editor.said("Well,")
        assert await editor.leave() == 0
        await gone(daemon.pid)
    assert await command.outcomes() == ["cancelled"]


async def test_an_editor_that_is_killed_with_the_command_leaves_no_daemon(command: Command) -> None:
    script = stall("Well, "), stall("So, ")
    async with scripted(command, *script), editing(command) as (editor, session):
        daemon = find_daemon(command.home / "data")
        assert daemon is not None
        new = await editor.ask("session/new", cwd=str(command.workspace), mcpServers=[])
        await editor.begin("session/prompt", sessionId=session, prompt=words("Talk."))
        await editor.said("Well,")
        await editor.begin("session/prompt", sessionId=new["sessionId"], prompt=words("Talk."))
        await editor.said("So,")
        editor.process.kill()
        await gone(daemon.pid)
    assert await command.outcomes() == ["cancelled", "cancelled"]


async def test_callboard_stop_ends_the_command_with_its_daemon(command: Command) -> None:
    async with scripted(command), editing(command) as (editor, _):
        assert (await command("stop")).code == 0
        with trio.fail_after(PATIENCE_SECONDS):
            assert await trio.to_thread.run_sync(editor.process.wait) == 0


async def test_in_a_served_daemon_the_turn_goes_on_without_the_editor(command: Command) -> None:
    async with scripted(command, reply(calls=[OVERWRITE]), reply("Done.")), serving(command):
        async with editing(command) as (editor, session):
            await editor.begin("session/prompt", sessionId=session, prompt=words("Write."))
            asked = await editor.asked("session/request_permission")
            assert await editor.leave() == 0
        text = asked["params"]["toolCall"]["content"][1]["content"]["text"]
        approval = next(word for word in text.split() if word.startswith("approval_"))
        answered = await command("approve", approval)
        assert answered.code == 0, answered.err
        async with bare_editor(command) as editor:
            await editor.ask("initialize", protocolVersion=1, clientCapabilities={})
            cwd = str(command.workspace)
            await editor.ask("session/load", sessionId=session, cwd=cwd, mcpServers=[])
            await editor.said("Done.")
    assert (command.workspace / "a.txt").read_text() == "new\n"


async def test_a_question_that_is_answered_elsewhere_is_taken_back(command: Command) -> None:
    async with scripted(command, reply(calls=[OVERWRITE]), reply("Done.")):
        async with editing(command) as (editor, session):
            number = await editor.begin("session/prompt", sessionId=session, prompt=words("Write."))
            asked = await editor.asked("session/request_permission")
            text = asked["params"]["toolCall"]["content"][1]["content"]["text"]
            approval = next(word for word in text.split() if word.startswith("approval_"))
            assert (await command("approve", approval)).code == 0
            assert (await editor.answer(number))["result"] == {"stopReason": "end_turn"}
            taken = await editor.asked("$/cancel_request")
            assert taken["params"] == {"requestId": asked["id"]}
    assert (command.workspace / "a.txt").read_text() == "new\n"


async def test_the_editor_shows_what_ran_when_a_person_changed_the_arguments(
    command: Command,
) -> None:
    async with scripted(command, reply(calls=[OVERWRITE]), reply("Done.")):
        async with editing(command) as (editor, session):
            number = await editor.begin("session/prompt", sessionId=session, prompt=words("Write."))
            asked = await editor.asked("session/request_permission")
            text = asked["params"]["toolCall"]["content"][1]["content"]["text"]
            approval = next(word for word in text.split() if word.startswith("approval_"))
            changed = {"path": "a.txt", "content": "other\n"}
            said = await command("approve", approval, "--arguments", json.dumps(changed))
            assert said.code == 0, said.err
            assert (await editor.answer(number))["result"] == {"stopReason": "end_turn"}
            done = editor.of("tool_call_update")[-1]
    assert (command.workspace / "a.txt").read_text() == "other\n"
    assert (done["status"], done["rawInput"]) == ("completed", changed)
    path = str(command.workspace / "a.txt")
    diff = {"type": "diff", "path": path, "oldText": "old\n", "newText": "other\n"}
    assert done["content"] == [diff]


async def test_a_daemon_that_is_killed_is_followed_by_another(command: Command) -> None:
    """The prompt that was at work has its end, and the next one goes on."""
    async with scripted(command, stall("Well, "), reply("After.")):
        async with editing(command) as (editor, session):
            number = await editor.begin("session/prompt", sessionId=session, prompt=words("Talk."))
            await editor.said("Well,")
            daemon = find_daemon(command.home / "data")
            assert daemon is not None
            os.kill(daemon.pid, signal.SIGKILL)
            assert (await editor.answer(number))["error"]["code"] == -32603
            await editor.ask("session/prompt", sessionId=session, prompt=words("Go on."))
            await editor.said("After.")
            assert await editor.leave() == 0
    assert await command.outcomes() == ["failed", "answered"]


async def test_a_request_that_is_cancelled_is_answered_all_the_same(command: Command) -> None:
    async with scripted(command, stall("Well, ")), editing(command) as (editor, session):
        number = await editor.begin("session/prompt", sessionId=session, prompt=words("Talk."))
        await editor.said("Well,")
        await editor.notify("$/cancel_request", requestId=number)
        assert (await editor.answer(number))["result"] == {"stopReason": "cancelled"}
        await editor.notify("$/cancel_request", requestId="nobody's")
        await editor.notify("session/cancel")  # without what it needs
        assert (await editor.ask("session/list"))["sessions"]


async def test_an_editor_that_can_not_ask_is_a_no(command: Command) -> None:
    answers: list[dict[str, Any]] = [
        {"error": {"code": -32601, "message": "no such method"}},
        {"result": {"outcome": {"outcome": "cancelled"}}},
        {"result": {"outcome": "yes"}},
    ]
    script = [step for _ in answers for step in (reply(calls=[OVERWRITE]), reply("Well. "))]
    async with scripted(command, *script), editing(command) as (editor, session):
        left = iter(answers)
        editor.answers["session/request_permission"] = lambda _: next(left)
        for _ in answers:
            await editor.ask("session/prompt", sessionId=session, prompt=words("Write."))
        assert editor.text == "Well. " * len(answers)
    assert (command.workspace / "a.txt").read_text() == "old\n"

"""Sessions in an editor: loading and listing them, what is chosen for their turns, what goes with a prompt."""

from __future__ import annotations

import base64
from typing import Any

from callboard.providers.catalog.known import KNOWN_MODELS
from callboard.providers.testing.script import reply
from callboard.runtime.events import InputAccepted, SessionTainted, TurnStarted
from support.acp.editor import Editor, bare_editor, chosen, editing, words
from support.acp.record import events_of
from support.cli.chat_scene import OVERWRITE, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command

PNG = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
).decode()


async def ask(editor: Editor, session: str, *blocks: dict[str, Any]) -> Any:
    return await editor.ask("session/prompt", sessionId=session, prompt=list(blocks))


async def test_a_session_is_listed_loaded_resumed_closed_and_deleted(command: Command) -> None:
    plan = ("plan", {"items": [{"text": "Paint", "status": "done"}]})
    script = reply("Hello.", calls=[plan]), reply("Planned."), reply("Again.")
    async with scripted(command, *script):
        async with editing(command) as (editor, session):
            await ask(editor, session, *words("Greet me."))
            assert editor.of("plan")[0]["entries"] == [
                {"content": "Paint", "priority": "medium", "status": "completed"}
            ]
            cwd = str(command.workspace)
            listed = await editor.ask("session/list", cwd=cwd)
            assert [row["sessionId"] for row in listed["sessions"]] == [session]
            assert listed["sessions"][0]["cwd"] == cwd
            assert await editor.ask("session/list", cwd=str(command.home)) == {"sessions": []}
            await editor.ask("session/close", sessionId=session)
            closed = await editor.refused("session/prompt", sessionId=session, prompt=words("Hi"))
            assert closed["code"] == -32602
            await editor.leave()
        async with bare_editor(command) as editor:
            await editor.ask("initialize", protocolVersion=1, clientCapabilities={})
            place = {"sessionId": session, "cwd": cwd, "mcpServers": []}
            loaded = await editor.ask("session/load", **place)
            assert loaded["modes"]["currentModeId"] == "balanced"
            kinds = [update["sessionUpdate"] for update in editor.updates]
            assert kinds[:3] == ["user_message_chunk", "agent_message_chunk", "tool_call"]
            assert editor.text == "Hello.Planned."
            await editor.ask("session/resume", **place)  # in the place of the first look
            await ask(editor, session, *words("Once more."))
            assert editor.text == "Hello.Planned.Again."
            other = await editor.refused("session/load", **{**place, "cwd": str(command.home)})
            assert other["code"] == -32602
            await editor.ask("session/delete", sessionId=session)
            assert await editor.ask("session/list", cwd=cwd) == {"sessions": []}
            gone = await editor.refused("session/load", **place)
            assert gone["code"] == -32602


async def test_what_is_chosen_holds_for_the_turns_from_then_on(command: Command) -> None:
    script = reply(calls=[OVERWRITE]), reply("Done."), reply("Strict."), reply("High.")
    async with scripted(command, *script) as server, editing(command) as (editor, session):
        await editor.ask("session/set_mode", sessionId=session, modeId="auto")
        [told] = editor.of("config_option_update")
        values = {option["id"]: option["currentValue"] for option in told["configOptions"]}
        assert values == {
            "mode": "auto",
            "model": "default",
            "thought_level": "default",
            "_agent": "general",
        }
        await ask(editor, session, *words("Overwrite it."))  # nobody is asked
        assert (command.workspace / "a.txt").read_text() == "new\n"
        for option, value in (("mode", "strict"), ("thought_level", "high"), ("model", "default")):
            now = await editor.ask(
                "session/set_config_option", sessionId=session, configId=option, value=value
            )
            assert value in [each["currentValue"] for each in now["configOptions"]]
        assert editor.of("current_mode_update")[-1]["currentModeId"] == "strict"
        await ask(editor, session, *words("Go on."))
        assert server.requests[-1].body.get("reasoning_effort") == "high"
        for option, value in (("mode", "wild"), ("colour", "red"), ("model", "none/such")):
            refused = await editor.refused(
                "session/set_config_option", sessionId=session, configId=option, value=value
            )
            assert refused["code"] == -32602
        await editor.leave()
    starts = [each for each in await events_of(command, session) if isinstance(each, TurnStarted)]
    assert [str(start.policy) for start in starts] == ["auto", "strict"]


async def test_files_and_images_go_with_a_prompt(command: Command) -> None:
    """What is attached taints the session; a file that is as on the disk goes by its path, and does not."""
    here = (command.workspace / "a.txt").as_uri()
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": False}}
    async with scripted(command, *[reply("Seen.")] * 3) as server:
        async with editing(command, **capabilities) as (editor, session):
            editor.answers["fs/read_text_file"] = lambda _: {"result": {"content": "old\n"}}
            trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
            link = {"type": "resource_link", "name": "a.txt", "uri": here}
            await editor.ask(
                "session/prompt",
                sessionId=session,
                prompt=[*words("Look at"), link, *words("now.")],
                _meta=trace,
            )
            embedded = {"type": "resource", "resource": {"uri": here, "text": "old\n"}}
            await ask(editor, session, embedded)
            first, second = [
                each
                for each in await events_of(command, session)
                if isinstance(each, InputAccepted)
            ]
            assert (first.text, second.text) == ("Look at a.txt now.", "a.txt ")
            assert first.trace is not None
            assert first.trace.traceparent == trace["traceparent"]
            assert not first.attachments + second.attachments
            events = await events_of(command, session)
            assert not [each for each in events if isinstance(each, SessionTainted)]
            editor.answers["fs/read_text_file"] = lambda _: {"result": {"content": "unsaved\n"}}
            image = {"type": "image", "mimeType": "image/png", "data": PNG}
            await ask(editor, session, link, image)
            assert "unsaved" in str(server.requests[-1].body)
            assert "image_url" in str(server.requests[-1].body)
            for block in (
                {"type": "audio", "mimeType": "audio/wav", "data": ""},
                {"type": "image", "mimeType": "image/png", "data": "no base64"},
                {"type": "smell"},
            ):
                refused = await editor.refused("session/prompt", sessionId=session, prompt=[block])
                assert refused["code"] == -32602
            await editor.leave()
    events = await events_of(command, session)
    assert [each.source for each in events if isinstance(each, SessionTainted)] == [
        "attachment a.txt"
    ]


async def test_an_editor_need_not_wait_for_answers(command: Command) -> None:
    """Requests that come with the same read are served in their order, those of a session too."""
    async with scripted(command, *[reply(str(number)) for number in range(6)]):
        async with bare_editor(command) as editor:
            await editor.send_at_once(
                ("initialize", {"protocolVersion": 1}),
                ("session/new", {"cwd": str(command.workspace), "mcpServers": []}),
            )
            session = (await editor.answer(2))["result"]["sessionId"]
            assert [message["id"] for message in editor.heard[:2]] == [1, 2]
            place = {"cwd": str(command.workspace), "mcpServers": []}
            await editor.ask("session/close", sessionId=session)
            prompts = [("session/prompt", {"prompt": words(f"No. {each}")}) for each in range(6)]
            modes = [("session/set_mode", {"modeId": each}) for each in ("strict", "auto")]
            asked: list[tuple[str, dict[str, Any]]]
            asked = [("session/load", place), modes[0], *prompts[:3], modes[1], *prompts[3:]]
            for number in await editor.send_at_once(
                *((method, {"sessionId": session, **params}) for method, params in asked)
            ):
                assert "result" in await editor.answer(number)
            assert await editor.leave() == 0
    turns = await events_of(command, session)
    assert [event.text for event in turns if isinstance(event, InputAccepted)] == [
        f"No. {each}" for each in range(6)
    ]
    policies = [event.policy for event in turns if isinstance(event, TurnStarted)]
    assert policies == ["strict"] * 3 + ["auto"] * 3


async def test_commands_need_no_model(command: Command) -> None:
    async with scripted(command, reply(calls=[OVERWRITE]), reply("Done.")):
        async with editing(command) as (editor, session):
            editor.answers["session/request_permission"] = lambda _: chosen("allow")
            await ask(editor, session, *words("Overwrite it."))
            [offered] = editor.of("available_commands_update")
            names = [each["name"] for each in offered["availableCommands"]]
            assert names.pop(names.index("compact"))  # that one asks a model
            for name in names:
                assert await ask(editor, session, *words(f"/{name}")) == {"stopReason": "end_turn"}
            assert (command.workspace / "a.txt").read_text() == "old\n"
            assert "Taken back: 1 path." in editor.text


async def test_a_command_shows_the_plan_of_a_session_that_was_not_loaded(command: Command) -> None:
    plan = ("plan", {"items": [{"text": "Paint", "status": "done"}, {"text": "Hang"}]})
    async with scripted(command, reply(calls=[plan]), reply("Planned.")):
        async with editing(command) as (editor, session):
            await ask(editor, session, *words("/plan"))
            assert editor.text == "There is no plan.\n"
            await ask(editor, session, *words("Plan."))
            place = {"sessionId": session, "cwd": str(command.workspace), "mcpServers": []}
            for method in ("session/resume", "session/load"):
                await editor.ask("session/close", sessionId=session)
                await editor.ask(method, **place)
                before = len(editor.text)
                await ask(editor, session, *words("/plan"))
                assert editor.text[before:].endswith("- [x] Paint\n- [ ] Hang\n")


async def test_commands_take_another_model_and_another_agent(command: Command) -> None:
    async with scripted(command, reply("One."), reply("Two.")) as server:
        with (command.home / "config" / "callboard.toml").open("a") as file:
            file.write('[agents.calm]\nprompt = "Be calm."\n')
        async with editing(command) as (editor, session):

            async def said(text: str) -> str:
                before = len(editor.text)
                await ask(editor, session, *words(text))
                return editor.text[before:]

            assert "- *general*" in await said("/agent")
            assert "- calm\n" in await said("/agent")
            assert (
                await said("/agent calm") == "calm is the session's agent from the next turn on.\n"
            )
            refused = await editor.refused(
                "session/prompt", sessionId=session, prompt=words("/agent clam")
            )
            assert refused["code"] == -32602
            assert "like it are calm" in refused["message"]
            assert await said("Speak.") == "One."
            assert "Be calm." in str(server.requests[-1].body)
            assert "- *default*" in await said("/model")
            [model] = [each for each in (await said("/model")).split() if each.startswith("local/")]
            assert await said(f"/model {model}") == f"{model} answers from your next prompt on.\n"
            [config] = [
                each["currentValue"]
                for each in editor.of("config_option_update")[-1]["configOptions"]
                if each["id"] == "model"
            ]
            assert config == model
            refused = await editor.refused(
                "session/prompt", sessionId=session, prompt=words("/model gpt-x")
            )
            assert refused["code"] == -32602
            assert await said("Speak.") == "Two."
    started = [each for each in await events_of(command, session) if isinstance(each, TurnStarted)]
    assert f"{started[-1].provider}/{started[-1].model}" == model


async def test_a_conversation_is_summed_up_when_the_person_says_so(command: Command) -> None:
    script = reply("One " * 50), reply("Two."), reply("NOTES"), reply("Three.")
    async with scripted(command, *script) as server, editing(command) as (editor, session):
        assert await ask(editor, session, *words("/compact")) == {"stopReason": "end_turn"}
        assert editor.text == "There is nothing to sum up yet."
        assert not server.requests
        await ask(editor, session, *words("Count."))
        await ask(editor, session, *words("Go on."))
        assert await ask(editor, session, *words("/compact the figures")) == {
            "stopReason": "end_turn"
        }
        assert "A summary stands in the place of the " in editor.text
        assert "says what matters in them: the figures" in str(server.requests[-1].body)
        await ask(editor, session, *words("Once more."))
        said = str(server.requests[-1].body["messages"])
        assert "NOTES" in said
        assert "One One" not in said
        assert "/compact the figures" in said


async def test_a_models_question_is_a_form_where_the_editor_has_forms(command: Command) -> None:
    question = ("ask_user", {"question": "Which door?", "options": ["left", "right"]})
    script = reply(calls=[question]), reply("Left it is."), reply(calls=[question]), reply("Well.")
    async with scripted(command, *script) as server:
        async with editing(command, elicitation={"form": {}}) as (editor, session):
            editor.answers["elicitation/create"] = lambda _: {
                "result": {"action": "accept", "content": {"answer": "left"}}
            }
            await ask(editor, session, *words("Go in."))
            form = (await editor.asked("elicitation/create"))["params"]
            assert (form["mode"], form["message"]) == ("form", "Which door?")
            assert "left" in str(server.requests[-1].body["messages"][-1])
            await editor.leave()
        async with editing(command) as (editor, session):
            await ask(editor, session, *words("Go in."))
            assert "Nobody was asked" in str(server.requests[-1].body["messages"][-1])


async def test_a_session_that_is_lost_answers_its_prompts(command: Command) -> None:
    """Loaded twice at once, it is open once; purged elsewhere, a prompt is an error, and the editor goes on."""
    async with scripted(command, reply("Hello."), reply("Other.")):
        async with editing(command) as (editor, session):
            await ask(editor, session, *words("Greet me."))
            place = {"sessionId": session, "cwd": str(command.workspace), "mcpServers": []}
            numbers = [await editor.begin("session/load", **place) for _ in range(3)]
            answers = [await editor.answer(number) for number in numbers]
            assert [each for each in answers if "result" in each]
            assert (await command("session", "delete", session)).code == 0
            purged = await command("session", "purge", session)
            assert purged.code == 0, purged.err
            lost = await editor.refused("session/prompt", sessionId=session, prompt=words("Hi"))
            assert lost["code"] in {-32602, -32603}
            new = await editor.ask("session/new", cwd=str(command.workspace), mcpServers=[])
            await ask(editor, new["sessionId"], *words("Greet me."))
            await editor.said("Other.")


async def test_how_full_the_context_is_where_the_window_is_known(command: Command) -> None:
    async with scripted(command, reply("Hello.")) as server:
        known = next(iter(KNOWN_MODELS["openai"]))
        config = command.home / "config" / "callboard.toml"
        moved = config.read_text().replace("local/scripted", f"openai/{known.model}")
        config.write_text(f'{moved}[providers.openai]\nbase_url = "{server.base_url}"\n')
        command.extra["OPENAI_API_KEY"] = "sk-no-key-of-anybody"
        async with editing(command) as (editor, session):
            await ask(editor, session, *words("Greet me."))
            await editor.hear(lambda _: editor.of("usage_update"))
            [told] = editor.of("usage_update")
            assert told["size"] == known.context_tokens
            assert told["used"] > 0
            assert told["cost"]["currency"] == "USD"
            assert told["cost"]["amount"] > 0

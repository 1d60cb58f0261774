"""What a model is told before anything is said: the preview of it is what the next turn sends."""

from __future__ import annotations

from pathlib import Path

import pytest

import callboard
from callboard.config.sections import ServerSettings
from callboard.config.settings import Settings
from callboard.embedding.runtime import host_of
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step
from callboard.runtime.errors import AuthError, NotFoundError, PermissionRefused, ValidationError
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import open_client, open_daemon

READER = callboard.Agent(name="reader", prompt="You read.", tools=("read_file",))
BARE = callboard.Agent(name="bare", prompt="", tools=())


async def test_the_preview_of_a_prompt_is_what_a_model_gets(tmp_path: Path) -> None:
    heard: list[str] = []

    def step(request: ModelRequest) -> Step:
        heard.append(request.system)
        return callboard.reply("Yes.")

    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("Use tabs.")
    async with (
        open_daemon(
            callboard.ScriptedModel([step] * 9),
            settings=ServerSettings(port=0, roots=(str(tmp_path),)),
            agents=[READER, BARE],
            data=tmp_path / "data",
            configured=Settings(),
        ) as daemon,
        open_client(daemon) as client,
    ):
        skills = await client.skills.list(workspace=str(work))
        before = await client.agents.preview("reader", workspace=str(work))
        assert [(part.source, part.text) for part in before.parts] == [("agent", "You read.")]
        (told,) = [each for each in skills if each.path.endswith("AGENTS.md")]
        await client.skills.allow(told.path, told.digest, workspace=str(work))
        host_of(daemon.runtime).plan.registry.instructions[""] = "Read slowly."
        for name in ("reader", "bare", "general"):
            session = await daemon.runtime.create_session(agent=name, workspace=work)
            await session.run("Well?")
            preview = await client.agents.preview(name, workspace=str(work))
            assert preview.text == heard[-1]
            assert "Use tabs." in preview.text
        reader = await client.agents.preview("reader", workspace=str(work))
        assert [part.source for part in reader.parts] == ["agent", "servers", "workspace"]
        # Without a workspace it is what every session of the agent is told.
        assert (await client.agents.preview("reader")).text == "You read.\n\nRead slowly."
        assert (await client.agents.preview("bare")).text == ""
        with pytest.raises(NotFoundError, match="nobody"):
            await client.agents.preview("nobody")
        with pytest.raises(ValidationError):
            await client.agents.preview("reader", workspace="/")
        token = daemon.new_token("limited", Role.OPERATOR, agents=("reader",))
        async with open_client(daemon, token) as limited:
            assert (await limited.agents.preview("reader")).text == "You read.\n\nRead slowly."
            with pytest.raises(NotFoundError):
                await limited.agents.preview("bare")
            with pytest.raises(PermissionRefused):
                await limited.agents.preview("reader", workspace=str(work))
        observer = daemon.new_token("eye", Role.OBSERVER)
        async with open_client(daemon, observer) as eye:
            with pytest.raises(AuthError):
                await eye.agents.preview("reader")

"""In a daemon, sessions get their titles from models that a provider serves, and from no other."""

from __future__ import annotations

import trio
import trio.testing

import callboard
from callboard.client.subscriptions import RemoteTopic
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.events import TitleSet
from callboard.runtime.wire.topics import TopicUpdate
from support.gateway.daemon_scene import open_client, open_daemon

PATIENCE_SECONDS = 20.0
QUESTION = "What time is it in Tokyo?"


async def titled(topic: RemoteTopic) -> TitleSet:
    """The next title that a session gets."""
    while True:
        told = await anext(topic)
        if isinstance(told, TopicUpdate) and isinstance(told.update.event, TitleSet):
            return told.update.event


async def test_a_client_hears_of_the_title_that_a_provider_s_model_gives() -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with (
            open_scripted_server([reply("It is noon."), reply("The time in Tokyo")]) as server,
            open_daemon("scripted", base_url=server.base_url, environ={}) as daemon,
            open_client(daemon) as client,
        ):
            session = await client.create_session()
            await client.prompt(session.session_id, QUESTION)
            async with client.topic("sessions", after_seq=0) as topic:
                assert await titled(topic) == TitleSet(title="The time in Tokyo", is_by_model=True)
            assert (await client.session(session.session_id)).title == "The time in Tokyo"
        server.assert_complete()


async def test_a_model_in_the_process_is_not_asked() -> None:
    model = callboard.ScriptedModel([reply("It is noon.")])
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_daemon(model, environ={}) as daemon:
            session = await daemon.runtime.create_session()
            await session.run(QUESTION)
            await trio.testing.wait_all_tasks_blocked(0.05)
    model.assert_complete()

"""Hosts without a question, in whole turns: once a session, once an answer, over redirects and reloads."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import callboard
from callboard.config.settings import NetworkSettings, Settings
from callboard.embedding.reconfiguring import reconfigure
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import SessionKind
from support.flows.person import Person
from support.stage import Played, make_workspace, open_in, play, read_result
from support.web.web_server import WebServer, open_web_server, page, redirect

HERE, THERE = "127.0.0.1", "localhost"


class Web:
    """A server under two names."""

    def __init__(self, server: WebServer) -> None:
        self.server = server
        self.places = tuple(f"{host}:{server.port}" for host in (HERE, THERE))

    def settings(self, *auto: str, **more: Any) -> Settings:
        listed = tuple(f"{host}:{self.server.port}" for host in auto)
        return Settings(network=NetworkSettings(allow=self.places, auto=listed), **more)

    def get(self, host: str, path: str = "/", tool: str = "web_fetch", **more: Any) -> Any:
        return (tool, {"url": f"http://{host}:{self.server.port}{path}", **more})


@asynccontextmanager
async def open_web() -> AsyncGenerator[Web]:
    async with open_web_server({"/": page("hello", content_type="text/plain")}) as server:
        web = Web(server)
        server.answers["/go"] = redirect(f"http://{THERE}:{server.port}/")
        yield web


async def played(
    folder: Path, person: Any, settings: Settings, *answers: Any, **more: Any
) -> Played:
    steps = [*(reply(calls=calls) for calls in answers), reply("Done.")]
    async with open_in(folder, steps, on_approval=person, settings=settings, **more) as runtime:
        return await play(await runtime.create_session(), "Go.")


def outcomes(turn: Played) -> list[str]:
    return [read_result(result).get("error_type", "fine") for result in turn.results]


@pytest.mark.parametrize("tool", ["web_fetch", "http_request"])
@pytest.mark.parametrize(
    ("policy", "asked"),
    [("auto", []), ("balanced", [THERE]), ("strict", [THERE, THERE])],
)
async def test_a_host_that_is_not_listed_is_asked_about_as_the_preset_says(
    tmp_path: Path, tool: str, policy: str, asked: list[str]
) -> None:
    person = Person()
    async with open_web() as web:
        calls = [[web.get(host, path, tool)] for path in ("/", "/?2") for host in (HERE, THERE)]
        turn = await played(tmp_path, person, web.settings(HERE), *calls, policy=policy)
    assert outcomes(turn) == ["fine"] * 4
    assert person.hosts == asked


async def test_an_agent_has_hosts_of_its_own(tmp_path: Path) -> None:
    person = Person()
    async with open_web() as web:
        settings = web.settings(HERE)
        agent = callboard.Agent(auto_hosts=(f"{THERE}:{web.server.port}",))
        turn = await played(
            tmp_path, person, settings, [web.get(HERE)], [web.get(THERE)], agents=[agent]
        )
    assert (outcomes(turn), person.asked) == (["fine", "fine"], [])


async def test_calls_of_one_answer_to_one_host_are_asked_about_once(tmp_path: Path) -> None:
    person = Person()
    async with open_web() as web:
        calls = [web.get(HERE, f"/?{number}") for number in range(5)]
        turn = await played(tmp_path, person, web.settings(), [*calls, web.get(THERE)])
    assert outcomes(turn) == ["fine"] * 6
    assert sorted(person.hosts, key=str) == [HERE, THERE]


async def test_each_is_asked_about_when_the_first_was_not_allowed(tmp_path: Path) -> None:
    person = Person("deny")
    async with open_web() as web:
        calls = [web.get(HERE, f"/?{number}") for number in range(3)]
        turn = await played(tmp_path, person, web.settings(), calls)
        assert web.server.requests == []
    assert outcomes(turn) == ["permission_denied"] * 3
    assert person.hosts == [HERE] * 3


@pytest.mark.parametrize("policy", ["balanced", "strict"])
async def test_a_redirect_to_a_host_that_would_ask_is_not_followed(
    tmp_path: Path, policy: str
) -> None:
    person = Person()
    async with open_web() as web:
        answers = [[web.get(HERE, "/go")], [web.get(THERE)]]
        turn = await played(tmp_path, person, web.settings(HERE), *answers, policy=policy)
        listed = await played(
            tmp_path, person, web.settings(HERE, THERE), [web.get(HERE, "/go")], policy=policy
        )
    assert outcomes(turn) == ["url_not_allowed", "fine"]
    assert "localhost is new to it" in read_result(turn.results[0])["message"]
    assert person.hosts == [THERE]
    assert outcomes(listed) == ["fine"]


async def test_what_is_sent_asks_whatever_the_list(tmp_path: Path) -> None:
    person = Person("deny")
    async with open_web() as web:
        post = web.get(HERE, "/", "http_request", method="post", body="x")
        head = web.get(HERE, "/", "http_request", method="HEAD")
        turn = await played(tmp_path, person, web.settings(HERE), [post], [head])
    assert outcomes(turn) == ["permission_denied", "fine"]
    assert len(person.asked) == 1


async def test_once_exposed_the_list_answers_nothing(tmp_path: Path) -> None:
    person = Person("deny")
    (make_workspace(tmp_path) / "notes.md").write_text("the code is 1234")
    async with open_web() as web:
        read = ("read_file", {"path": "notes.md"})
        answers = [[web.get(HERE)], [read], [web.get(HERE, "/?again")]]
        turn = await played(tmp_path, person, web.settings(HERE), *answers)
    assert outcomes(turn) == ["fine", "fine", "permission_denied"]
    assert "has read untrusted content and private data" in person.asked[0].reason


async def test_a_worker_reaches_the_list_and_nothing_else(tmp_path: Path) -> None:
    from callboard.runtime.events import SessionCreated
    from callboard.runtime.messages import CreateSession

    async with open_web() as web:
        steps = [reply(calls=[web.get(HERE), web.get(THERE)]), reply("Done.")]
        options: dict[str, Any] = {"settings": web.settings(HERE), "on_approval": Person()}
        async with open_in(tmp_path, steps, **options) as runtime:
            created = SessionCreated(
                agent="general", workspace=str(tmp_path / "work"), kind=SessionKind.WORKER
            )
            host = host_of(runtime)
            session = callboard.Session(
                host, await host.directory.ask(CreateSession(created=created))
            )
            turn = await play(session, "Look.")
    assert sorted(outcomes(turn)) == ["fine", "permission_denied"]
    [denied] = [read_result(r) for r in turn.results if r.status == "denied"]
    assert "not under [network] auto" in denied["message"]


async def test_a_reload_changes_the_list_for_what_comes(tmp_path: Path) -> None:
    person = Person("deny")
    async with open_web() as web:
        steps = [
            reply(calls=[web.get(HERE)]),
            reply("No."),
            reply(calls=[web.get(HERE)]),
            reply("Yes."),
        ]
        options: dict[str, Any] = {"settings": web.settings(), "on_approval": person}
        async with open_in(tmp_path, steps, **options) as runtime:
            session = await runtime.create_session()
            first = await play(session, "Go.")
            await reconfigure(host_of(runtime), web.settings(HERE))
            second = await play(session, "Go.")
    assert (outcomes(first), outcomes(second)) == (["permission_denied"], ["fine"])
    assert len(person.asked) == 1


async def test_a_remembered_answer_is_for_the_host(tmp_path: Path) -> None:
    person = Person(remember="session")
    async with open_web() as web:
        answers = [[web.get(HERE)], [web.get(HERE, "/?2")], [web.get(THERE)]]
        await played(tmp_path, person, web.settings(), *answers, policy="strict")
    # What comes from the net taints the session, in which what was allowed before is suspended.
    assert person.hosts == [HERE, HERE, THERE]
    assert msgspec.json.decode(person.asked[0].arguments)["url"].startswith(f"http://{HERE}")

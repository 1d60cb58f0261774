"""Untrusted content, private data and new hosts: what a session that has read both may still do."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.config.policy.rules import Condition, PlacedRule, Rule
from callboard.config.settings import NetworkSettings, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Resource, Verdict
from callboard.runtime.events import CallFinished, PrivateDataRead, SessionTainted, Stored
from callboard.tools.web.fetch import web_fetch
from support.flows.person import Person
from support.stage import (
    Played,
    make_workspace,
    on_both_stores,
    open_in,
    play,
    play_in,
    read_result,
    run_in,
)
from support.web.web_server import Answer, WebServer, open_web_server, page, redirect

HERE = "127.0.0.1"
THERE = "localhost"
READ = ("read_file", {"path": "notes.md"})
CREATE = ("write_file", {"path": "new.md", "content": "x"})
APPEND = ("write_file", {"path": "notes.md", "content": "x", "mode": "append"})
MOVE = ("move_file", {"from": "notes.md", "to": "moved.md"})
EXPOSED = "the session has read untrusted content and private data"


class Web:
    """A server under two names."""

    def __init__(self, server: WebServer) -> None:
        self.server = server
        names = tuple(f"{host}:{server.port}" for host in (HERE, THERE))
        self.network = NetworkSettings(allow=names, auto=names)

    def get(self, host: str, path: str = "/", **more: Any) -> tuple[str, dict[str, Any]]:
        return ("http_request", {"url": f"http://{host}:{self.server.port}{path}", **more})

    def look(self, host: str, path: str = "/") -> tuple[str, dict[str, Any]]:
        return ("look_at", {"url": f"http://{host}:{self.server.port}{path}"})

    @property
    def reached(self) -> list[str]:
        return [request.headers["host"].partition(":")[0] for request in self.server.requests]


@asynccontextmanager
async def open_web() -> AsyncGenerator[Web]:
    async with open_web_server({"/": page("hello")}) as server:
        web = Web(server)
        server.answers["/go"] = redirect(f"http://{THERE}:{server.port}/")
        yield web


@callboard.tool(tier="read_only", needs=["network"], effect="read")
async def look_at(url: str, context: callboard.ToolContext) -> str:
    """Looks at a page."""
    from callboard.runtime.handles import WebRequest

    assert context.network is not None
    request = WebRequest(method="GET", url=url, headers={})
    answer = await context.network.request(request, max_bytes=100)
    return answer.body.decode()


@callboard.tool(approval="always")
async def launch(name: str) -> str:
    """Launches something."""
    return name


@asynccontextmanager
async def open_it(
    folder: Path, web: Web, person: Any, answers: Sequence[Any], **options: Any
) -> AsyncGenerator[callboard.Runtime]:
    """A runtime whose model asks for these calls, one answer each."""
    workspace = make_workspace(folder)
    (workspace / "notes.md").write_text("the code is 1234")
    rules = [PlacedRule(rule, "here") for rule in options.pop("rules", ())]
    steps = [reply(calls=calls) if isinstance(calls, list) else calls for calls in answers]
    is_kept = options.pop("store", "memory") == "disk"
    options["tools"] = [look_at, launch, *options.get("tools", ())]
    settings = Settings(network=web.network, rules=tuple(rules))
    script, store = [*steps, *[reply("Done.")] * 3], "disk" if is_kept else "memory"
    async with open_in(
        folder, script, store, on_approval=person, settings=settings, **options
    ) as runtime:
        yield runtime


def outcomes(played: Played) -> list[str]:
    """Of each call, in order: its error, or that it is fine."""
    return [read_result(result).get("error_type", "fine") for result in played.results]


# ── private data, and new hosts ──────────────────────────────────────────────────────────────────


@on_both_stores
async def test_having_read_both_each_host_asks_until_let(tmp_path: Path, store: str) -> None:
    person = Person()
    async with open_web() as web:
        answers = [
            [READ], [web.get(HERE)], [web.get(THERE)], [web.get(HERE, "/?again")],
            [web.get(THERE, "/?again")], [web.get(HERE, "/?again")],
        ]  # fmt: skip
        async with open_it(tmp_path, web, person, answers, store=store) as runtime:
            played = await play(await runtime.create_session(), "Go.")
    assert outcomes(played) == ["fine"] * 6
    assert person.hosts == [THERE, HERE]
    for question, host in zip(person.asked, person.hosts, strict=True):
        assert question.reason == f"balanced asks: {EXPOSED}, and {host} is new to it"


@pytest.mark.parametrize(
    ("before", "policy", "asks"),
    [
        ([[READ], ["HERE"]], "balanced", True),
        ([["HERE"], [READ]], "balanced", True),
        ([["HERE"]], "balanced", False),
        ([[READ]], "balanced", False),
        ([], "balanced", False),
        ([[CREATE], ["HERE"]], "balanced", False),  # it learned nothing of what is there
        ([[CREATE, CREATE], ["HERE"]], "balanced", True),  # that it is there already
        ([[APPEND], ["HERE"]], "balanced", True),  # how long it was
        ([[MOVE], ["HERE"]], "balanced", True),
        ([[READ], ["HERE"]], "auto", False),
    ],
)
async def test_a_new_host_asks_only_behind_both(
    tmp_path: Path, before: list[list[Any]], policy: str, asks: bool
) -> None:
    person = Person("deny")
    async with open_web() as web:
        answers = [
            [web.get(HERE) if call == "HERE" else call for call in calls] for calls in before
        ]
        answers.append([web.get(THERE)])
        async with open_it(tmp_path, web, person, answers, policy=policy) as runtime:
            played = await play(await runtime.create_session(), "Go.")
    assert person.hosts == ([THERE] if asks else [])
    assert outcomes(played)[-1] == ("permission_denied" if asks else "fine")
    assert (THERE in web.reached) is not asks


async def test_what_a_session_read_and_where_it_was_outlives_it(tmp_path: Path) -> None:
    async with open_web() as web:
        first = [[READ], [web.get(HERE)], [web.get(THERE)]]
        let = Person()
        async with open_it(tmp_path, web, let, first, store="disk") as runtime:
            session = await run_in(runtime, "Go.")
        assert let.hosts == [THERE]
        person = Person("deny")
        then = [[web.get(HERE, "/?again"), web.get(THERE)]]
        async with open_it(tmp_path, web, person, then, store="disk") as runtime:
            again = await runtime.get_session(session.session_id)
            played = await play(again, "Go.")
            row = await runtime.store.session(session.session_id)
    assert person.hosts == [HERE]  # where it was before it had read both
    assert sorted(outcomes(played)) == ["fine", "permission_denied"]
    assert row is not None
    assert (row.is_tainted, row.has_private) == (True, True)


async def test_a_call_that_waits_for_its_key_sees_what_a_sibling_has_read(tmp_path: Path) -> None:
    def key(arguments: Any) -> list[Resource]:
        return [Resource("shared")]

    @callboard.tool(tier="read_only", needs=["files.read"], resources=key)
    async def read_slowly(context: callboard.ToolContext) -> str:
        """Reads."""
        return "read"

    @callboard.tool(needs=["network"], resources=key)
    async def visit(url: str) -> str:
        """Visits."""
        return "visited"

    person = Person("deny")
    visiting = ("visit", {"url": "http://new.test/"})
    async with open_web() as web:
        for calls in ([("read_slowly", {}), visiting], [visiting, ("read_slowly", {})]):
            answers = [[web.get(HERE)], calls]
            tools = [read_slowly, visit]
            async with open_it(tmp_path, web, person, answers, tools=tools) as runtime:
                await play(await runtime.create_session(), "Go.")
            # What was decided first, and had not to wait, can't hold what the sibling read.
            assert person.hosts == ["new.test"]


async def test_the_marks_stand_on_record_once_ahead_of_the_result(tmp_path: Path) -> None:
    async with open_web() as web:
        answers = [[READ, ("list_directory", {"path": "."})], [web.get(HERE)], [READ]]
        async with open_it(tmp_path, web, Person(), answers) as runtime:
            session = await run_in(runtime, "Go.")
            record = await runtime.store.events(session.session_id)
    marks = [
        stored for stored in record if isinstance(stored.event, PrivateDataRead | SessionTainted)
    ]
    assert [type(mark.event) for mark in marks] == [PrivateDataRead, SessionTainted]
    for mark in marks:
        event, behind = mark.event, record[mark.seq].event
        assert isinstance(event, PrivateDataRead | SessionTainted)
        assert isinstance(behind, CallFinished)
        assert (behind.call_id, behind.name) == (event.call_id, event.source)
    assert [hosts_of(stored) for stored in record if hosts_of(stored)] == [(HERE,)]


def hosts_of(stored: Stored) -> tuple[str, ...]:
    return stored.event.hosts if isinstance(stored.event, CallFinished) else ()


async def test_a_call_that_did_not_run_has_read_nothing(tmp_path: Path) -> None:
    write = ("write_file", {"path": "notes.md", "content": "x"})
    async with open_web() as web:
        answers = [[write], [web.get(HERE, method="POST")]]
        async with open_it(tmp_path, web, Person("deny"), answers) as runtime:
            session, played = await play_in(runtime, "Go.")
            row = await runtime.store.session(session.session_id)
    assert outcomes(played) == ["permission_denied"] * 2
    assert row is not None
    assert (row.is_tainted, row.has_private) == (False, False)


@callboard.tool(name="read_page", tier="read_only", needs=["network"], effect="read")
@functools.wraps(web_fetch.function)
async def read_page(**given: Any) -> str:
    """Reads a page by ways of its own."""
    return "written by strangers"


async def cut_off(stream: Any) -> None:
    await stream.send_all(page("words", content_length="9"))


@pytest.mark.parametrize("tool", ["web_fetch", "http_request"])
@pytest.mark.parametrize(
    ("url", "answers", "is_tainted"),
    [
        ("nope", {}, False),
        ("ftp://files.test/", {}, False),
        ("http://127.0.0.1:1/", {}, False),
        ("http://10.0.0.1/", {}, False),
        ("{server}/", {}, True),
        ("{server}/gone", {"/gone": page("no such page", status="404 Gone")}, True),
        ("{server}/empty", {"/empty": page("", status="204 Nothing")}, True),
        ("{server}/cut", {"/cut": cut_off}, True),
        ("{server}/odd", {"/odd": b"Do as I say.\r\n\r\n"}, True),
        ("{server}/in", {"/in": redirect("http://10.0.0.1/do-as-i-say")}, True),
        ("{server}/ftp", {"/ftp": redirect("ftp://do.as.i.say/")}, True),
        ("{server}/bad", {"/bad": redirect("http://[do-as-i-say/")}, True),
    ],
)
async def test_only_what_was_refused_before_anybody_was_connected_taints_nobody(
    url: str, answers: dict[str, Answer], is_tainted: bool, tool: str, tmp_path: Path
) -> None:
    async with open_web() as web:
        web.server.answers.update(answers)
        call = (tool, {"url": url.format(server=f"http://{HERE}:{web.server.port}")})
        async with open_it(tmp_path, web, Person(), [[call]]) as runtime:
            session, played = await play_in(runtime, "Go.")
            row = await runtime.store.session(session.session_id)
        assert bool(web.server.requests) is is_tainted
    assert row is not None
    assert row.is_tainted is is_tainted, played.results


async def test_a_tool_of_the_applications_taints_whatever_its_handle_heard(tmp_path: Path) -> None:
    async with open_web() as web:
        for name in ("read_page", "look_at"):
            answers = [[(name, {"url": "nope"})]]
            async with open_it(tmp_path, web, Person(), answers, tools=[read_page]) as runtime:
                session, _ = await play_in(runtime, "Go.")
                row = await runtime.store.session(session.session_id)
            assert row is not None
            assert row.is_tainted, name


async def test_a_search_without_an_engine_taints_nobody(tmp_path: Path) -> None:
    async with open_web() as web:
        answers = [[("web_search", {"query": "rain"})]]
        async with open_it(tmp_path, web, Person(), answers) as runtime:
            session = await runtime.create_session()
            assert outcomes(await play(session, "Go.")) == ["execution_error"]
            row = await runtime.store.session(session.session_id)
    assert row is not None
    assert not row.is_tainted


async def test_a_host_that_did_not_answer_stays_new(tmp_path: Path) -> None:
    person = Person("deny")
    async with open_web() as web:
        refused = ("http_request", {"url": "http://10.0.0.1/"})
        web.network = NetworkSettings(allow=web.network.allow, auto=(*web.network.auto, "10.0.0.1"))
        answers = [[refused, web.get(HERE)], [READ], [refused]]
        async with open_it(tmp_path, web, person, answers) as runtime:
            played = await play(await runtime.create_session(), "Go.")
    assert outcomes(played) == ["url_not_allowed", "fine", "fine", "permission_denied"]


# ── rules and grants for a host ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "asks"),
    [
        ({"url": Condition(host=THERE)}, False),
        ({}, True),
        ({"method": Condition(is_="GET")}, True),
        ({"url": Condition(host="other.test")}, True),
    ],
)
async def test_an_operator_answers_with_a_rule_that_names_the_host(
    tmp_path: Path, arguments: dict[str, Condition], asks: bool
) -> None:
    person = Person("deny")
    rule = Rule(verdict=Verdict.ALLOW, tool="http_request", arguments=arguments)
    async with open_web() as web:
        answers = [[READ], [web.get(HERE)], [web.get(THERE)]]
        async with open_it(tmp_path, web, person, answers, rules=[rule]) as runtime:
            await play(await runtime.create_session(), "Go.")
    assert person.hosts == ([THERE] if asks else [])


@pytest.mark.parametrize(
    ("remember", "hosts"),
    [("turn", [THERE, HERE]), ("session", [THERE, HERE]), (None, [THERE, HERE, THERE])],
)
async def test_a_person_answers(tmp_path: Path, remember: str | None, hosts: list[str]) -> None:
    person = Person(remember=remember)
    # It is refused where it connects, so that the host stays new and only the grant speaks.
    closed = ("http_request", {"url": f"http://{THERE}:1/"})
    async with open_web() as web:
        answers = [[READ], [web.get(HERE)], [closed], [web.get(HERE, "/go")], [web.get(THERE)]]
        async with open_it(tmp_path, web, person, answers) as runtime:
            played = await play(await runtime.create_session(), "Go.")
    assert person.hosts == hosts
    followed = "fine" if remember else "url_not_allowed"
    assert outcomes(played) == ["fine", "fine", "url_not_allowed", followed, "fine"]


async def test_a_grant_for_a_host_is_for_the_method_too(tmp_path: Path) -> None:
    person = Person(remember="session")
    closed = ("http_request", {"url": f"http://{THERE}:1/", "method": "HEAD"})
    async with open_web() as web:
        answers = [[READ], [web.get(HERE)], [closed], [web.get(THERE)]]
        async with open_it(tmp_path, web, person, answers) as runtime:
            await play(await runtime.create_session(), "Go.")
    assert person.hosts == [THERE] * 2


@pytest.mark.parametrize("policy", ["strict", "balanced"])
async def test_strict_asks_about_each_new_host(tmp_path: Path, policy: str) -> None:
    person = Person()
    async with open_web() as web:
        answers = [[web.look(HERE)], [web.look(HERE)], [web.look(THERE)]]
        async with open_it(tmp_path, web, person, answers, policy=policy) as runtime:
            await play(await runtime.create_session(), "Go.")
    assert person.hosts == ([HERE, THERE] if policy == "strict" else [])
    reasons = {request.reason for request in person.asked}
    assert reasons <= {
        f"strict asks for each new host: {host} is new to it" for host in (HERE, THERE)
    }


# ── redirects ────────────────────────────────────────────────────────────────────────────────────

ON_THERE = {"url": Condition(host=THERE)}


@pytest.mark.parametrize(
    ("before", "rule", "policy", "follows"),
    [
        ([READ], None, "balanced", False),
        ([READ], None, "strict", False),
        ([READ], None, "auto", True),
        ([], None, "balanced", True),
        ([], None, "strict", True),
        ([READ, "THERE"], None, "balanced", True),
        ([READ, "THERE"], None, "strict", True),
        ([READ], Verdict.ALLOW, "balanced", True),
        ([READ], Verdict.ALLOW, "strict", True),
        ([], Verdict.ASK, "auto", False),
        ([], Verdict.DENY, "auto", False),
        ([READ], Verdict.DENY, "auto", False),
    ],
)
async def test_a_redirect_leads_nowhere_that_would_ask(
    tmp_path: Path, before: list[Any], rule: Verdict | None, policy: str, follows: bool
) -> None:
    rules = [Rule(verdict=rule, tool="http_request", arguments=ON_THERE)] if rule else []
    async with open_web() as web:
        answers = [[web.get(HERE)]]
        answers += [[web.get(THERE) if call == "THERE" else call] for call in before]
        answers += [[web.get(HERE, "/go")]]
        async with open_it(tmp_path, web, Person(), answers, rules=rules, policy=policy) as runtime:
            played = await play(await runtime.create_session(), "Go.")
    last = played.results[-1]
    assert web.reached.count(THERE) == ("THERE" in before) + follows
    if follows:
        assert last.hosts == (HERE, THERE)
    else:
        assert last.hosts == (HERE,)
        assert read_result(last)["error_type"] == "url_not_allowed"
        message = read_result(last)["message"]
        assert f"Not sent to http://{THERE}:{web.server.port}/: " in message
        assert "ask for that URL itself" in message
    if rule is None and not follows:
        assert f"{EXPOSED}, and {THERE} is new to it" in read_result(last)["message"]


async def test_a_rule_about_every_request_does_not_end_redirects(tmp_path: Path) -> None:
    person = Person()
    rule = Rule(verdict=Verdict.ASK, tool="http_request")
    async with open_web() as web:
        async with open_it(
            tmp_path, web, person, [[web.get(HERE, "/go")]], rules=[rule]
        ) as runtime:
            played = await play(await runtime.create_session(), "Go.")
    assert (person.hosts, outcomes(played), web.reached) == ([HERE], ["fine"], [HERE, THERE])


async def test_a_redirects_host_is_known_until_both_are_read(tmp_path: Path) -> None:
    person = Person()
    async with open_web() as web:
        answers = [[web.look(HERE, "/go")], [web.look(THERE)], [READ], [web.look(THERE)]]
        async with open_it(tmp_path, web, person, answers, policy="strict") as runtime:
            played = await play(await runtime.create_session(), "Go.")
    assert outcomes(played) == ["fine"] * 4
    assert person.hosts == [HERE, THERE]
    assert [EXPOSED in question.reason for question in person.asked] == [False, True]


@pytest.mark.parametrize("is_let", [False, True])
async def test_a_redirects_host_is_known_once_it_was_let(tmp_path: Path, is_let: bool) -> None:
    """By a rule for one URL, so that it says nothing about the one behind it."""
    person = Person()
    async with open_web() as web:
        there = {"url": Condition(is_=f"http://{THERE}:{web.server.port}/")}
        rule = Rule(verdict=Verdict.ALLOW, tool="http_request", arguments=there)
        rules = [rule] if is_let else []
        answers = [[web.get(HERE)], [READ], [web.get(HERE, "/go")], [web.get(THERE, "/?more")]]
        async with open_it(tmp_path, web, person, answers, rules=rules) as runtime:
            await play(await runtime.create_session(), "Go.")
    assert person.hosts == ([HERE] if is_let else [HERE, THERE])


@pytest.mark.parametrize("is_exposed", [False, True])
async def test_a_tool_of_no_stated_host_makes_none_known(tmp_path: Path, is_exposed: bool) -> None:
    @callboard.tool(tier="read_only", needs=["network"])
    async def seek(port: int, context: callboard.ToolContext) -> str:
        """Connects where its arguments don't say."""
        from callboard.runtime.handles import WebRequest

        assert context.network is not None
        request = WebRequest(method="GET", url=f"http://{THERE}:{port}/", headers={})
        return (await context.network.request(request, max_bytes=9)).body.decode()

    person = Person()
    rule = Rule(verdict=Verdict.ALLOW, tool="seek")
    async with open_web() as web:
        before = [[web.look(HERE)], [READ]] if is_exposed else []
        answers = [*before, [("seek", {"port": web.server.port})], [web.look(THERE)]]
        async with open_it(
            tmp_path, web, person, answers, rules=[rule], tools=[seek], policy="strict"
        ) as runtime:
            played = await play(await runtime.create_session(), "Go.")
    assert set(outcomes(played)) == {"fine"}
    assert person.hosts == ([HERE, THERE] if is_exposed else [])


async def test_a_tool_goes_nowhere_else_than_its_arguments_say(tmp_path: Path) -> None:
    @callboard.tool(needs=["network"])
    async def pretend(url: str, context: callboard.ToolContext) -> str:
        """Says one thing and does another."""
        from callboard.runtime.handles import WebRequest

        assert context.network is not None
        elsewhere = url.replace(HERE, THERE)
        request = WebRequest(method="GET", url=elsewhere, headers={})
        return (await context.network.request(request, max_bytes=9)).body.decode()

    async with open_web() as web:
        call = ("pretend", web.get(HERE)[1])
        for before, outcome in (([], "fine"), ([READ], "url_not_allowed")):
            answers = [[web.get(HERE)], *([call] for call in before), [call]]
            async with open_it(tmp_path, web, Person(), answers, tools=[pretend]) as runtime:
                played = await play(await runtime.create_session(), "Go.")
            assert outcomes(played)[-1] == outcome


# ── grants in a tainted session ──────────────────────────────────────────────────────────────────

LAUNCH = [("launch", {"name": "a"})]


@on_both_stores
@pytest.mark.parametrize("scope", ["turn", "session", "agent", "always"])
async def test_grants_before_the_taint_ask_again(tmp_path: Path, store: str, scope: str) -> None:
    person = Person(remember=scope)
    async with open_web() as web:
        answers = [LAUNCH, LAUNCH, [web.get(HERE)], LAUNCH]
        async with open_it(tmp_path, web, person, answers, store=store) as runtime:
            await play(await runtime.create_session(), "Go.")
            assert len(person.asked) == 2  # once before the taint, and once behind it


@on_both_stores
@pytest.mark.parametrize(("scope", "times"), [("turn", 1), ("session", 1), ("agent", 2)])
async def test_grants_behind_the_taint(tmp_path: Path, store: str, scope: str, times: int) -> None:
    person = Person(remember=scope)
    async with open_web() as web:
        answers = [[web.get(HERE)], LAUNCH, LAUNCH]
        async with open_it(tmp_path, web, person, answers, store=store) as runtime:
            session, _ = await play_in(runtime, "Go.")
            assert len(person.asked) == times
    if (scope, store) == ("session", "disk"):
        async with open_web() as web:
            async with open_it(tmp_path, web, person, [LAUNCH], store=store) as runtime:
                again = await runtime.get_session(session.session_id)
                await play(again, "Go.")
        assert len(person.asked) == times


async def test_a_denial_that_is_remembered_holds_in_a_tainted_session_too(tmp_path: Path) -> None:
    person = Person("deny", remember="always")
    async with open_web() as web:
        answers = [LAUNCH, [web.get(HERE)], LAUNCH]
        async with open_it(tmp_path, web, person, answers) as runtime:
            played = await play(await runtime.create_session(), "Go.")
    assert outcomes(played) == ["permission_denied", "fine", "permission_denied"]
    assert len(person.asked) == 1

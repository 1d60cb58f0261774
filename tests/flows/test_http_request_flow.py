"""http_request in a whole turn: settings, presets, the record, deadlines, the rehearsal model."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.config.files import parse_settings
from callboard.config.settings import Limits, NetworkSettings, Settings
from callboard.providers.testing.script import ScriptedReply, reply
from callboard.providers.testing.scripted_server import ScriptedRequest, ServerStep
from callboard.runtime.errors import ValidationError
from callboard.runtime.events import CallFinished, CallProposed, CallStarted
from support.stage import check_records, on_both_stores, open_in, open_stage, play, read_result
from support.web.web_server import WebServer, open_web_server, page


def allowing(server: WebServer, *, is_quiet: bool = True, **given: Any) -> Settings:
    here = (f"127.0.0.1:{server.port}",)
    return Settings(network=NetworkSettings(allow=here, auto=here if is_quiet else ()), **given)


def steps(*calls: dict[str, Any]) -> list[Any]:
    return [reply(calls=[("http_request", call) for call in calls]), reply("Done.")]


@on_both_stores
async def test_what_the_operator_lists_is_reached_and_nothing_else(
    tmp_path: Path, store: str
) -> None:
    async with open_web_server({"/": page("inside")}) as server, open_web_server({}) as other:
        script = steps({"url": server.url()}, {"url": other.url()}, {"url": "http://localhost/"})
        async with open_stage(
            tmp_path, script, store=store, settings=allowing(server), policy="auto"
        ) as stage:
            played = await play(await stage.runtime.create_session(), "Look.")
    results = {result.call_id: read_result(result) for result in played.results}
    outcomes = [each.get("error_type") or each["result"]["body"] for each in results.values()]
    assert sorted(outcomes) == ["inside", "url_not_allowed", "url_not_allowed"]
    assert (len(server.requests), other.requests) == (1, [])
    assert played.ended.outcome == "answered"


@pytest.mark.parametrize(
    ("policy", "method", "asks"),
    [
        ("auto", "GET", None),
        ("auto", "POST", None),
        ("balanced", "GET", "balanced asks for each new host"),
        ("balanced", "head", "balanced asks for each new host"),
        ("balanced", "POST", "sends POST to 127.0.0.1:"),
        ("balanced", "delete", "sends DELETE to 127.0.0.1:"),
        ("strict", "GET", "strict asks for every system call"),
        ("strict", "PUT", "sends PUT to 127.0.0.1:"),
    ],
)
async def test_the_table_of_presets(
    tmp_path: Path, policy: str, method: str, asks: str | None
) -> None:
    questions: list[callboard.ApprovalRequest] = []

    async def no(request: callboard.ApprovalRequest) -> str:
        questions.append(request)
        return "deny"

    async with open_web_server({"/": page("")}) as server:
        script = steps({"url": server.url(), "method": method})
        async with open_stage(
            tmp_path,
            script,
            settings=allowing(server, is_quiet=False),
            policy=policy,
            on_approval=no,
        ) as stage:
            played = await play(await stage.runtime.create_session(), "Go.")
    status = "success" if asks is None else "denied"
    assert played.statuses == [("http_request", status)]
    assert len(server.requests) == (asks is None)
    assert [asks in question.reason for question in questions if asks] == [True] * (
        asks is not None
    )


async def test_what_can_not_be_sent_is_not_asked_about(tmp_path: Path) -> None:
    async def never(request: callboard.ApprovalRequest) -> str:
        raise AssertionError(request.reason)

    wrong = {"url": "http://a.test/", "method": "POST", "headers": {"Host": "b"}}
    async with open_stage(tmp_path, steps(wrong), on_approval=never) as stage:
        [result] = (await play(await stage.runtime.create_session(), "Go.")).results
    assert read_result(result)["field"] == "headers.Host"


@pytest.mark.parametrize(("method", "is_marked"), [("GET", False), ("POST", True)])
async def test_only_what_may_change_something_is_recorded_before_it_runs(
    tmp_path: Path, method: str, is_marked: bool
) -> None:
    async with open_web_server({"/": page()}) as server:
        script = steps({"url": server.url(), "method": method})
        # In strict both wait for an answer, so that neither is started with the batch.
        async with open_stage(
            tmp_path,
            script,
            settings=allowing(server, is_quiet=False),
            policy="strict",
            on_approval="allow",
        ) as stage:
            played = await play(await stage.runtime.create_session(), "Go.")
    kinds = [type(e) for e in played.events if isinstance(e, CallStarted | CallFinished)]
    assert kinds == [CallStarted, CallFinished] if is_marked else [CallFinished]
    assert played.statuses == [("http_request", "success")]


async def drip(stream: trio.SocketStream) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
    while True:
        await stream.send_all(b"x")
        await trio.sleep(0.01)


async def test_a_drip_ends_with_the_calls_own_deadline_and_its_sibling_is_untouched(
    tmp_path: Path,
) -> None:
    async with open_web_server({"/": page("fine"), "/drip": drip}) as server:
        script = steps({"url": server.url("/drip"), "timeout": 0.3}, {"url": server.url()})
        async with open_stage(tmp_path, script, settings=allowing(server)) as stage:
            played = await play(await stage.runtime.create_session(), "Go.")
    assert played.statuses == [("http_request", "success"), ("http_request", "timeout")]
    [late] = [result for result in played.results if result.status == "timeout"]
    assert read_result(late)["elapsed_seconds"] == 0.3


async def test_a_cancelled_turn_leaves_no_connection(tmp_path: Path) -> None:
    begun = trio.Event()

    async def silent(stream: trio.SocketStream) -> None:
        begun.set()
        # Ends when the client has gone.
        assert await stream.receive_some(1) == b""
        gone.set()

    gone = trio.Event()
    async with open_web_server({"/": silent}) as server:
        script = steps({"url": server.url()})
        async with open_stage(tmp_path, script, settings=allowing(server), complete=False) as stage:
            session = await stage.runtime.create_session()
            async with session.prompt("Go.") as turn:
                await begun.wait()
                await turn.cancel()
            await gone.wait()


async def test_the_rehearsal_model_fetches_a_page(tmp_path: Path) -> None:
    async with open_web_server({"/news": page("All is well.")}) as server:
        async with open_in(tmp_path, "rehearsal/rehearsal", settings=allowing(server)) as runtime:
            session = await runtime.create_session()
            answer = await session.run(f"Fetch {server.url('/news')}")
            refused = await session.run("Fetch http://127.0.0.1:9/")
            await check_records(runtime)
    assert "All is well." in answer
    assert "url_not_allowed" in refused


class Fetched(msgspec.Struct, frozen=True):
    """What the model gets of a page.

    Attributes:
        first: The content of the call's own message.
        pages: The contents with which it read on.
    """

    first: dict[str, Any]
    pages: list[str]


async def fetch(tmp_path: Path, body: str) -> Fetched:
    """Fetches it, and reads on for as long as there is more."""
    contents: list[dict[str, Any]] = []

    def read_on(request: ScriptedRequest) -> ScriptedReply:
        messages = request.body["messages"]
        contents.append(json.loads(messages[-1]["content"]))
        result = contents[-1]["result"]
        if "truncated" in contents[-1]:  # the result, not only the body
            offset = len(result.encode())
        elif len(contents) == 1 or (offset := result.get("next_offset")) is None:
            return reply("Read.")
        path = f"artifact:{messages[2]['tool_calls'][0]['id']}"
        assert path in contents[0]["truncated"]
        return reply(calls=[("read_file", {"path": path, "offset": offset, "limit": 30_000})])

    async with open_web_server({"/": page(body, x_thing="a")}) as server:
        asks = reply(calls=[("http_request", {"url": server.url()})])
        script: list[ServerStep] = [asks, *[read_on] * 6]
        async with open_stage(tmp_path, script, settings=allowing(server), complete=False) as stage:
            session = await stage.runtime.create_session()
            assert await session.run("Fetch it.") == "Read."
    first, *others = contents
    return Fetched(first, [other["result"]["content"] for other in others])


async def test_a_page_that_fits_is_given_as_it_is(tmp_path: Path) -> None:
    body = "line\n" * 10_000
    fetched = await fetch(tmp_path, body)
    result = fetched.first["result"]
    assert (list(fetched.first), fetched.pages) == (["status", "result"], [])
    assert (result["status"], result["truncated"], result["body"]) == (200, False, body)


@pytest.mark.parametrize(
    ("size", "kept", "said"),
    [
        (90 * 1024, 90 * 1024, '"truncated":false,'),
        (
            300 * 1024,
            100 * 1024,
            '"truncated":true,"note":"The body is the first 102400 bytes of 307200 bytes.",',
        ),
    ],
)
async def test_of_a_page_that_does_not_fit_all_but_the_body_comes_and_the_rest_is_read_on(
    tmp_path: Path, size: int, kept: int, said: str
) -> None:
    body = "".join(f"{number:07}," for number in range(size // 8))
    fetched = await fetch(tmp_path, body)
    # The beginning of the result, in JSON: what is said of the body stands before it.
    begins = '{"status":200,"reason":"OK",' + said + '"headers":{'
    beginning = fetched.first["result"]
    assert beginning.startswith(begins)
    head, _, text = beginning.partition('"body":"')
    assert '"x-thing":"a"' in head
    assert body.startswith(text)
    assert len(json.dumps(beginning)) - 2 == 64 * 1024
    assert fetched.first["truncated"].startswith(f"The result is {len(head) + 8 + kept + 2} bytes")
    whole = json.loads(beginning + "".join(fetched.pages))
    assert whole["body"] == body[:kept]


async def test_a_page_is_not_cut_twice_where_a_result_may_be_larger(tmp_path: Path) -> None:
    async with open_web_server({"/": page("x" * 300 * 1024)}) as server:
        settings = allowing(server, limits=Limits(max_result_bytes=128 * 1024))
        script = steps({"url": server.url()})
        async with open_stage(tmp_path, script, settings=settings) as stage:
            [result] = (await play(await stage.runtime.create_session(), "Go.")).results
    output = read_result(result)["result"]
    assert output["note"] == "The body is the first 102400 bytes of 307200 bytes."
    assert output["body"] == "x" * 100 * 1024


async def test_every_name_below_a_listed_one_is_reached(tmp_path: Path) -> None:
    async with open_web_server({"/": page("inside")}) as server:
        port = server.port
        settings = Settings(network=NetworkSettings(allow=(f".Corp.Test.:{port}",)))
        hosts = ["www.corp.test", "a.b.CORP.test.", "corp.test", "badcorp.test"]
        script = steps(*({"url": f"http://{host}:{port}/"} for host in hosts))
        trio.socket.set_custom_hostname_resolver(AllHere())
        async with open_stage(tmp_path, script, settings=settings, policy="auto") as stage:
            played = await play(await stage.runtime.create_session(), "Go.")
    order = [event.call_id for event in played.events if isinstance(event, CallProposed)]
    results = {result.call_id: read_result(result) for result in played.results}
    outcomes = [results[call].get("error_type", "reached") for call in order]
    assert outcomes == ["reached", "reached", "url_not_allowed", "url_not_allowed"]
    assert len(server.requests) == 2


class AllHere(trio.abc.HostnameResolver):
    """Every name leads to this machine."""

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("entry", ["127.0.0.1", "http://a:80", "*:80", "a:0", ".0.0.1:80"])
def test_a_wrong_entry_is_named_with_its_line(entry: str) -> None:
    with pytest.raises(ValidationError, match=r"line \d: network.allow: .* HOST:PORT"):
        parse_settings(f'[network]\nallow = ["a.test:80", "{entry}"]\n', Path("callboard.toml"))
    given = '[network]\nallow = ["A.test.:80", ".Bücher.test:443"]\n'
    settings = parse_settings(given, Path("callboard.toml"))
    assert settings.network.endpoints == (("a.test", 80), (".xn--bcher-kva.test", 443))

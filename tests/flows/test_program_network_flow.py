"""Programs that reach hosts, through the front door: who may, what is judged, and what is on record."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.config.policy.rules import Condition, PlacedRule, Rule
from callboard.config.sections import SandboxSettings
from callboard.config.settings import NetworkSettings, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Tier, Verdict
from callboard.runtime.events import PrivateDataRead, SessionTainted
from callboard.runtime.processes import Command
from support.flows.person import Person
from support.stage import Played, open_in, play, play_in, read_result
from support.web.web_server import WebServer, open_web_server, page

Calls = Sequence[tuple[str, dict[str, Any]]]
HERE, THERE = "here.test", "there.test"

GET = """
import socket, sys
for target in sys.argv[1:]:
    with socket.create_connection(("127.0.0.1", 3128), timeout=10) as own:
        own.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.1\\r\\n\\r\\n".encode())
        own.shutdown(socket.SHUT_WR)
        data = b""
        while chunk := own.recv(65536):
            data += chunk
    print(target.split(":")[0], data.split()[1].decode(), data.split(b"\\n")[-2 if data.endswith(b"\\n") else -1].decode())
"""


pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture
def names() -> Any:
    """All names of `.test` are this machine; what is connected is decided by the list alone."""

    class Names(trio.abc.HostnameResolver):
        async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
            assert host.endswith(b".test")
            return [(2, 1, 6, "", ("127.0.0.1", port))]

        async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
            raise NotImplementedError

    return Names()


class Scene:
    """A runtime whose programs may reach a server under two names."""

    def __init__(self, runtime: callboard.Runtime, server: WebServer) -> None:
        self.runtime = runtime
        self.server = server

    @property
    def reached(self) -> int:
        return len(self.server.requests)


def code(port: int, *hosts: str, **more: Any) -> tuple[str, dict[str, Any]]:
    args = [f"{host}:{port}" for host in hosts]
    arguments = {"language": "python", "code": GET, "args": args, "network": True}
    return ("run_code", {**arguments, **more})


@asynccontextmanager
async def open_scene(
    folder: Path,
    names: Any,
    answers: Any,
    *,
    network: bool = True,
    rules: Sequence[Rule] = (),
    **options: Any,
) -> AsyncGenerator[Scene]:
    trio.socket.set_custom_hostname_resolver(names)
    async with open_web_server({"/": page("reached")}) as server:
        allow = tuple(f"{host}:{server.port}" for host in (HERE, THERE))
        placed = tuple(PlacedRule(rule, f"rule {n}") for n, rule in enumerate(rules))
        settings = Settings(
            network=NetworkSettings(allow=allow),
            sandbox=SandboxSettings(network=network),
            rules=placed,
        )
        steps = [reply(calls=list(calls)) for calls in answers(server.port)]
        async with open_in(
            folder, [*steps, *[reply("Done.")] * 2], settings=settings, **options
        ) as runtime:
            yield Scene(runtime, server)


def outcomes(played: Played) -> list[Any]:
    return [read_result(each).get("error_type", "fine") for each in played.results]


def printed(played: Played, number: int = -1) -> list[str]:
    result: str = read_result(played.results[number])["result"]["stdout"]
    return result.splitlines()


async def test_case_42_what_the_operator_did_not_allow_no_argument_gives(
    tmp_path: Path, names: Any
) -> None:
    person = Person()

    def answers(port: int) -> Any:
        shell = ("shell", {"command": "echo ran", "network": True})
        return [[code(port, HERE)], [shell], [code(port, network=False)]]

    async with open_scene(
        tmp_path, names, answers, network=False, on_approval=person, policy="balanced"
    ) as scene:
        played = await play(await scene.runtime.create_session(), "Go.")
        assert outcomes(played) == ["permission_denied", "permission_denied", "fine"]
        for result in played.results[:2]:
            assert "[sandbox] network = true" in read_result(result)["message"]
            assert result.status == "denied"
        assert scene.reached == 0
    assert person.asked == []  # nobody is asked about what can't be


@pytest.mark.parametrize(
    ("policy", "asks"), [("auto", False), ("balanced", True), ("strict", True)]
)
@pytest.mark.parametrize("tool", ["run_code", "shell"])
async def test_who_is_asked(tmp_path: Path, names: Any, policy: str, asks: bool, tool: str) -> None:
    person = Person()

    def answers(port: int) -> Any:
        words = ["python3", "-c", GET, f"{HERE}:{port}"]
        shell = ("shell", {"command": words, "network": True})
        # The second control: without the network it is another call, of which nobody is asked.
        plain = ("run_code", {"language": "bash", "code": "true"})
        own = shell if tool == "shell" else code(port, HERE)
        return [[own]] if policy == "strict" else [[plain], [own]]

    async with open_scene(tmp_path, names, answers, on_approval=person, policy=policy) as scene:
        session, played = await play_in(scene.runtime, "Go.")
        assert set(outcomes(played)) == {"fine"}
        assert printed(played) == ["here.test 200 reached"]
        assert read_result(played.results[-1])["result"]["hosts"] == [HERE]
        assert played.results[-1].hosts == (HERE,)
        assert scene.reached == 1
        events = [each.event for each in await scene.runtime.store.events(session.session_id)]
        tainted = [event for event in events if isinstance(event, SessionTainted)]
        assert [event.source for event in tainted] == [tool]
        assert any(isinstance(event, PrivateDataRead) for event in events)
    assert [request.tier for request in person.asked] == ([Tier.SYSTEM] if asks else [])
    for request in person.asked:
        assert "(may reach hosts on the internet)" in (request.preview or "")


async def test_without_it_a_session_is_not_marked(tmp_path: Path, names: Any) -> None:
    def answers(port: int) -> Any:
        return [[("run_code", {"language": "bash", "code": "env | grep -ci proxy; true"})]]

    async with open_scene(tmp_path, names, answers, policy="auto") as scene:
        session = await scene.runtime.create_session()
        assert printed(await play(session, "Go.")) == ["0"]
        events = [each.event for each in await scene.runtime.store.events(session.session_id)]
        assert not any(isinstance(event, SessionTainted) for event in events)


async def test_a_rule_about_a_host_holds_for_programs(tmp_path: Path, names: Any) -> None:
    deny = Rule(tool=("*",), verdict=Verdict.DENY, arguments={"url": Condition(host=(THERE,))})

    def answers(port: int) -> Any:
        return [[code(port, THERE, HERE)]]

    async with open_scene(tmp_path, names, answers, policy="auto", rules=[deny]) as scene:
        played = await play(await scene.runtime.create_session(), "Go.")
        [first, second] = printed(played)
        assert first.startswith("there.test 403 callboard: Not sent to ")
        assert "a rule about run_code denies such calls" in first
        assert second == "here.test 200 reached"  # the control
        result = read_result(played.results[-1])["result"]
        assert list(result["refused_hosts"]) == [f"{THERE}:{scene.server.port}"]
        assert played.results[-1].hosts == (HERE,)
        assert scene.reached == 1


def letting_run(*hosts: str) -> list[Rule]:
    """Rules that let the calls run, and these hosts be reached, without a person."""
    run = Rule(tool=("run_code",), tier=(Tier.SYSTEM,), verdict=Verdict.ALLOW)
    reach = Rule(
        tool=("run_code",),
        tier=(Tier.SYSTEM,),
        verdict=Verdict.ALLOW,
        arguments={"url": Condition(host=hosts)},
    )
    return [run, reach]


@pytest.mark.parametrize("is_exposed", [False, True])
async def test_an_exposed_session_reaches_no_new_host_unless_a_rule_names_it(
    tmp_path: Path, names: Any, is_exposed: bool
) -> None:
    """What nobody was asked about: nobody can be asked in the middle either."""

    def answers(port: int) -> Any:
        first = [[code(port)]] if is_exposed else []  # it marks its session with both
        return [*first, [code(port, HERE, THERE)]]

    async with open_scene(
        tmp_path, names, answers, policy="balanced", rules=letting_run(HERE)
    ) as scene:
        played = await play(await scene.runtime.create_session(), "Go.")
        [first, second] = printed(played)
        assert first == "here.test 200 reached"
        if not is_exposed:
            assert second == "there.test 200 reached"  # the control
            return
        assert second.startswith("there.test 403 ")
        assert "the session has read untrusted content and private data" in second
        assert scene.reached == 1


async def test_a_person_who_allows_the_call_allows_its_hosts(tmp_path: Path, names: Any) -> None:
    person = Person()

    def answers(port: int) -> Any:
        return [[code(port, HERE)], [code(port, THERE)]]

    async with open_scene(tmp_path, names, answers, policy="balanced", on_approval=person) as scene:
        played = await play(await scene.runtime.create_session(), "Go.")
        assert printed(played, 0) == ["here.test 200 reached"]
        assert printed(played, 1) == ["there.test 200 reached"]
    assert "the session has read untrusted content" in person.asked[1].reason


async def test_a_background_program_reaches_hosts_until_it_ends(tmp_path: Path, names: Any) -> None:
    def answers(port: int) -> Any:
        words = ["python3", "-c", GET, f"{HERE}:{port}"]
        begin = ("shell", {"command": words, "network": True, "background": True})
        return [[begin], [("process", {"action": "wait", "id": "p1", "timeout": 20})]]

    async with open_scene(tmp_path, names, answers, policy="auto") as scene:
        played = await play(await scene.runtime.create_session(), "Go.")
        waited = read_result(played.results[-1])["result"]
        assert waited["output"] == "here.test 200 reached\n"
        assert waited["hosts"] == [HERE]


ASK = """
import socket, sys
for question in ("who?", "x" * 70_000, "last"):
    with socket.socket(socket.AF_UNIX) as own:
        own.settimeout(20)
        own.connect("/run/callboard/helper")
        try:
            own.sendall(question.encode())
            own.shutdown(socket.SHUT_WR)
            answer = own.recv(100)
        except OSError:
            answer = b""
        print(len(question), answer.decode() or "nothing")
"""


async def ask(context: callboard.ToolContext, name: str, *, network: bool = False) -> Any:
    asked: list[int] = []

    async def answer(question: bytes) -> bytes:
        asked.append(len(question))
        return b"secret of " + question[:4]

    assert context.processes is not None
    ran = await context.processes.run(
        Command(
            argv=("python3", "/run/callboard/ask.py"),
            files={"ask.py": ASK.encode()},
            answers={name: answer},
            network=network,
            seconds=30,
        )
    )
    return {"out": ran.stdout, "err": ran.stderr[-300:], "asked": asked}


@callboard.tool(tier="system", needs=["processes"])
async def ask_helper(context: callboard.ToolContext, name: str = "helper") -> Any:
    """Runs a program that asks its helper."""
    return await ask(context, name)


@callboard.tool(tier="system", needs=["processes"])
async def sneak(context: callboard.ToolContext) -> Any:
    """Wants the network without having said so."""
    return await ask(context, "helper", network=True)


@callboard.tool(tier="system", needs=["processes", "network"])
async def fetch_it(context: callboard.ToolContext) -> Any:
    """Wants the network, and has said so."""
    return await ask(context, "helper", network=True)


async def test_a_program_asks_a_socket_that_its_tool_answers(tmp_path: Path, names: Any) -> None:
    def answers(port: int) -> Any:
        return [[("ask_helper", {})], [("sneak", {})], [("fetch_it", {})]]

    async with open_scene(
        tmp_path, names, answers, network=False, policy="auto", tools=[ask_helper, sneak, fetch_it]
    ) as scene:
        played = await play(await scene.runtime.create_session(), "Go.")
        assert outcomes(played) == ["fine", "permission_denied", "fine"]
        for number in (0, 2):
            told = read_result(played.results[number])["result"]
            lines = told["out"].splitlines()
            assert lines == ["4 secret of who?", "70000 nothing", "4 secret of last"], told
            assert told["asked"] == [4, 4]
        assert "may not reach hosts" in read_result(played.results[1])["message"]
        assert "secret of" not in json.dumps([read_result(r) for r in played.results[1:2]])


async def test_a_socket_has_a_plain_name(tmp_path: Path, names: Any) -> None:
    def answers(port: int) -> Any:
        return [[("ask_helper", {"name": name})] for name in ("../x", "ask.py", "", "a" * 40)]

    async with open_scene(tmp_path, names, answers, policy="auto", tools=[ask_helper]) as scene:
        played = await play(await scene.runtime.create_session(), "Go.")
        assert outcomes(played) == ["execution_error"] * 4

"""A client is served by the node that it is connected to, whichever node owns the session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio_websocket

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.client.client import Client, connect
from callboard.config.keys.tokens import Credentials
from callboard.gateway.connection.caller import Caller
from callboard.gateway.methods.all import all_methods
from callboard.gateway.methods.subscriptions import subscribe_session
from callboard.gateway.relays import accepted as accepted_module
from callboard.gateway.relays import relays as relays_module
from callboard.gateway.relays.accepted import NodeConnection
from callboard.providers.testing.script import events_of, reply
from callboard.runtime.errors import (
    AuthError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    PermissionRefused,
    ValidationError,
)
from callboard.runtime.events import InputAccepted, Stored, TurnEnded
from callboard.runtime.redaction import Secret
from callboard.runtime.wire.daemon import Changes
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.sessions import Prompt, Subscribe, Subscribed, Ticket
from support.cluster.served_node import node_of, open_served, relays_of
from support.gateway.daemon_scene import Daemon, RawClient, View
from support.gateway.door_scene import request
from support.gateway.gated_model import GatedModel
from support.gateway.raw_door import Answer, answer_to
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import some, until

WAIT_SECONDS = 60.0
METHODS = all_methods()


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


@asynccontextmanager
async def two_nodes(url: str, folder: Path, **of_b: Any) -> AsyncGenerator[tuple[Daemon, Daemon]]:
    """Nodes a and b, which know each other."""
    async with open_served(url, "a", folder) as a, open_served(url, "b", folder, **of_b) as b:
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: all(len(node_of(each).members.live) == 2 for each in (a, b)))
            yield a, b


async def known_to(daemon: Daemon, token: str) -> str:
    """Wait until another node knows a token, too."""
    await until(lambda: daemon.credentials.find(token) is not None)
    return token


async def hear(client: Client, session_id: str, heard: list[Stored]) -> None:
    async with client.events(session_id, after_seq=0) as events:
        async for event in events:
            heard += [event] if isinstance(event, Stored) else []


def has_turns(heard: list[Stored], count: int) -> bool:
    return ended(heard) == count


async def see(
    daemon: Daemon, session_id: str, view: View, *, task_status: trio.TaskStatus[None]
) -> None:
    async with connect(daemon.url, daemon.token) as client:
        async with client.events(session_id, after_seq=0) as events:
            task_status.started()
            await view.read(events)


def ended(heard: list[Stored]) -> int:
    return sum(isinstance(each.event, TurnEnded) for each in heard)


async def test_a_session_is_used_at_a_node_that_does_not_own_it(url: str, tmp_path: Path) -> None:
    heard: list[Stored] = []
    async with (
        two_nodes(url, tmp_path) as (a, b),
        connect(a.url, a.token) as at_a,
        connect(b.url, b.token) as at_b,
        trio.open_nursery() as nursery,
    ):
        session = (await at_b.create_session()).session_id
        nursery.start_soon(hear, at_a, session, heard)
        await at_a.prompt(session, "One?")
        await until(lambda: ended(heard) == 1)
        await at_a.rename(session, "Ours")
        assert (await at_b.session(session)).title == "Ours"
        said = [row.content for row in await at_a.messages(session)]
        assert said == ["One?", "By b."]
        assert [each.seq for each in heard] == list(range(1, len(heard) + 1))
        assert node_of(b).owns(session)
        assert not node_of(a).owns(session)
        nursery.cancel_scope.cancel()


async def test_what_the_owner_has_on_record_and_has_not_told_yet_is_not_missed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, asked = list[Stored](), list[Subscribe]()
    last = 5

    async def ahead(caller: Caller, params: Subscribe) -> Subscribed:
        """The first time the record is ahead of the feed by a whole turn, which the feed then tells nobody."""
        asked.append(params)
        if len(asked) > 1:
            told: Subscribed = await subscribe_session(caller, params)
            return told
        caller.afterwards(caller.subscriptions.subscribe(params.session_id, last))
        return Subscribed(last)

    monkeypatch.setattr(accepted_module, "subscribe_session", ahead)
    async with (
        two_nodes(url, tmp_path) as (a, b),
        connect(a.url, a.token) as at_a,
        connect(b.url, b.token) as at_b,
        trio.open_nursery() as nursery,
    ):
        session = (await at_b.create_session()).session_id
        nursery.start_soon(hear, at_a, session, heard)
        await until(lambda: asked)
        await at_a.prompt(session, "One?")
        await until(lambda: ended(heard) == 1)
        assert [each.seq for each in heard] == list(range(1, last + 1))
        nursery.cancel_scope.cancel()


async def test_errors_of_the_owner_are_the_client_s(url: str, tmp_path: Path) -> None:
    async with (
        two_nodes(url, tmp_path) as (a, b),
        connect(a.url, a.token) as at_a,
        connect(b.url, b.token) as at_b,
    ):
        session = (await at_b.create_session()).session_id
        with pytest.raises(ConflictError) as nothing:
            await at_a.retry(session)
        assert nothing.value.kind == "state"
        with pytest.raises(ValidationError):
            await at_a.prompt(session, "")
        with pytest.raises(NotFoundError):
            await at_a.prompt("session_none", "One?")
        assert await at_a.cancel(session) is False
        assert (await at_a.prompt(session, "One?")).input_id  # and what is right is done


async def test_pieces_of_an_answer_come_from_the_owner_once_for_all_who_listen(
    url: str, tmp_path: Path
) -> None:
    model = GatedModel(events_of(reply(["One, ", "two, ", "three."])))
    views = [View(), View(), View()]
    async with (
        two_nodes(url, tmp_path, model=model) as (a, b),
        connect(b.url, b.token) as at_b,
        connect(a.url, a.token) as at_a,
        trio.open_nursery() as nursery,
    ):
        session = (await at_b.create_session()).session_id
        for view in views:
            await nursery.start(see, a, session, view)
        await at_a.prompt(session, "Count.")
        model.let(2)
        await until(lambda: all("One, " in view.text for view in views))
        assert not any(view.has_ended for view in views)
        (accepted,) = relays_of(b).accepted
        (feed,) = b.gateway.daemon.feeds._feeds.values()
        assert len(feed[0]._subscribers) == 1  # the node, and not its three clients
        assert accepted.credential.name == "a"
        model.let_all()
        await until(lambda: all(view.has_ended for view in views))
        for view in views:
            assert [each.seq for each in view.stored] == list(range(1, len(view.stored) + 1))


async def test_a_session_that_nobody_follows_any_more_is_left_at_the_owner(
    url: str, tmp_path: Path
) -> None:
    async with (
        two_nodes(url, tmp_path) as (a, b),
        connect(a.url, a.token) as at_a,
        connect(b.url, b.token) as at_b,
    ):
        session = (await at_b.create_session()).session_id
        feeds = b.gateway.daemon.feeds._feeds
        for turns in (1, 2):
            heard: list[Stored] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hear, at_a, session, heard)
                await at_a.prompt(session, "Again?")
                await until(partial(has_turns, heard, turns))
                assert list(feeds) == [session]
                nursery.cancel_scope.cancel()
            await until(lambda: not feeds)


async def test_a_client_is_judged_by_its_own_token_at_the_owner(url: str, tmp_path: Path) -> None:
    async with (
        two_nodes(url, tmp_path, policy="balanced") as (a, b),
        connect(b.url, b.token) as at_b,
    ):
        mine, other = [(await at_b.create_session()).session_id for _ in range(2)]
        limited = a.new_token("limited", Role.OPERATOR, sessions=(mine,))
        reader = a.new_token("reader", Role.OBSERVER)
        await known_to(b, limited)
        async with connect(a.url, limited) as client:
            await client.prompt(mine, "One?")  # what it may, it may through a
            with pytest.raises(NotFoundError):
                await client.prompt(other, "One?")
            with pytest.raises(PermissionRefused, match="only an administrator"):
                await client.prompt(
                    mine, "One?", options=callboard.TurnOptions(policy=callboard.Preset.AUTO)
                )
        async with connect(a.url, reader) as client:
            with pytest.raises(AuthError, match="operator"):
                await client.prompt(mine, "One?")
        by_name = await known_to(b, a.token)
        async with connect(a.url, by_name) as client:
            await client.prompt(
                other, "One?", options=callboard.TurnOptions(policy=callboard.Preset.AUTO)
            )


async def test_a_node_that_says_more_than_the_token_has_is_refused(
    url: str, tmp_path: Path
) -> None:
    async with two_nodes(url, tmp_path) as (a, b), connect(b.url, b.token) as at_b:
        session = (await at_b.create_session()).session_id
        token = await known_to(b, a.new_token("reader", Role.OBSERVER))
        digest = find(a.credentials, token)
        async with open_relay(a, b) as raw:
            for role, code in (("operator", "auth"), ("admin", "auth"), ("observer", "auth")):
                answer = await relayed(raw, "session/rename", digest, role, session, title="x")
                assert answer["error"]["data"]["type"] == code
            # its own role, and a method of that
            answer = await relayed(raw, "session/changes", digest, "observer", session)
            assert answer["result"] == {"changes": []}
            nobody = await relayed(raw, "session/changes", "0" * 64, "observer", session)
            assert nobody["error"]["data"]["type"] == "auth"
            b.credentials.revoke("reader")
            gone = await relayed(raw, "session/changes", digest, "observer", session)
            assert gone["error"]["data"]["type"] == "auth"


def find(credentials: Credentials, token: str) -> str:
    found = credentials.find(token)
    assert found is not None
    return found.digest


async def relayed(
    raw: RawClient, method: str, digest: str, role: str, session: str, **params: Any
) -> Any:
    principal = {"digest": digest, "role": role}
    wanted = {
        "number": 1,
        "principal": principal,
        "method": method,
        "params": {"session_id": session, **params},
    }
    await raw.send({"jsonrpc": "2.0", "id": "relayed", "method": "relay/request", "params": wanted})
    while (frame := await raw.receive()).get("id") != "relayed":
        pass
    return frame


@asynccontextmanager
async def open_relay(
    a: Daemon, b: Daemon, ticket: str | None = None, path: str = "/relay"
) -> AsyncGenerator[RawClient]:
    """A websocket to node b with a ticket of node a, after `initialize`."""
    life = node_of(b).life
    assert life is not None
    shown = node_of(a).ticket_for(life).reveal() if ticket is None else ticket
    stream = await trio.open_tcp_stream("127.0.0.1", b.gateway.port)
    async with trio.open_nursery() as nursery:
        try:
            socket = await trio_websocket.wrap_client_stream(
                nursery,
                stream,
                f"127.0.0.1:{b.gateway.port}",
                path,
                extra_headers=[(b"authorization", f"Bearer {shown}".encode())],
            )
            raw = RawClient(socket)
            await raw.hello()
            yield raw
        finally:
            await trio.aclose_forcefully(stream)
            nursery.cancel_scope.cancel()


async def status_of(a: Daemon, b: Daemon, ticket: str, path: str = "/relay") -> int:
    """The status with which a handshake is refused; 101 when it is not."""
    try:
        async with open_relay(a, b, ticket, path):
            return 101
    except* trio_websocket.ConnectionRejected as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        assert isinstance(error, trio_websocket.ConnectionRejected)
        status: int = error.status_code
    return status


async def test_a_node_is_known_by_a_ticket_that_nobody_else_has(url: str, tmp_path: Path) -> None:
    async with two_nodes(url, tmp_path) as (a, b):
        own, to = node_of(a).life, node_of(b).life
        assert own is not None
        assert to is not None
        token = await known_to(b, a.token)
        assert await status_of(a, b, token) == 401  # a client's token is no ticket
        assert await status_of(a, b, token, "/ws") == 101
        ticket = node_of(a).ticket_for(to).reveal()
        assert await status_of(a, b, ticket, "/ws") == 401  # and a ticket is no token
        assert await status_of(a, b, ticket) == 101
        assert await status_of(a, b, ticket) == 401  # it is good once
        to_itself = node_of(a).ticket_for(own).reveal()
        assert await status_of(a, b, to_itself) == 401
        forged = node_of(a)._tickets.new(own, to, Secret("wrong")).reveal()
        assert await status_of(a, b, forged) == 401
        assert await status_of(a, b, node_of(a).ticket_for(to).reveal()) == 101


async def test_a_node_asks_nothing_that_is_not_about_a_session_of_the_other(
    url: str, tmp_path: Path
) -> None:
    async with two_nodes(url, tmp_path) as (a, b), connect(a.url, a.token) as at_a:
        token = await known_to(b, a.token)
        digest = find(a.credentials, token)
        here = (await at_a.create_session()).session_id
        async with open_relay(a, b) as raw:
            for method in ("runtime/shutdown", "token/list", "session/list", "session/prompt"):
                answer = await raw.call(method, session_id=here, content="x")
                assert answer["error"]["code"] == -32601  # by itself a node may nothing
            for method in ("runtime/shutdown", "token/list", "session/give_options"):
                answer = await relayed(raw, method, digest, "admin", here)
                assert answer["error"]["code"] == -32601
            followed = await raw.call("session/subscribe", session_id=here)
            assert followed["error"]["data"]["kind"] == "owner"
            # relayed once, and no further
            prompted = await relayed(raw, "session/prompt", digest, "admin", here, content="x")
            assert prompted["error"]["data"]["kind"] == "owner"
        async with open_relay(b, a) as raw:  # the positive control, at the owner
            assert "result" in await raw.call("session/subscribe", session_id=here)
            prompted = await relayed(raw, "session/prompt", digest, "admin", here, content="x")
            assert "result" in prompted


async def test_an_owner_that_does_not_answer_is_waited_for_and_then_named(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays_module, "PATIENCE_SECONDS", 0.5)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")  # nobody accepts
    nowhere = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    async with (
        listener,
        two_nodes(url, tmp_path, reached_at=nowhere) as (a, b),
        connect(a.url, a.token) as at_a,
        connect(b.url, b.token) as at_b,
    ):
        session = (await at_b.create_session()).session_id
        with pytest.raises(
            OverloadedError, match=f"node b, .*at {nowhere}, can't be reached"
        ) as failed:
            await at_a.rename(session, "x")
        assert failed.value.kind == "owner"
        assert failed.value.retryable
        await at_a.messages(session)  # what is on record, all have
        await at_b.rename(session, "At b it works")


async def test_what_only_has_the_address_of_a_node_is_told_nothing(
    url: str, tmp_path: Path
) -> None:
    """A program at the address of a node takes the ticket, and can't answer it: no request goes there."""
    heard: list[str] = []

    async def pretend(request: trio_websocket.WebSocketRequest) -> None:
        socket = await request.accept()
        with_hello = msgspec.json.decode(await socket.get_message())
        welcome = {
            "protocol": 1,
            "server": {"name": "callboard", "version": "1"},
            "epoch": "",
            "seq": 0,
            "role": "observer",
            "limits": {"max_frame_bytes": 9999, "max_outbox_bytes": 9999, "ping_seconds": 20},
            "features": [],
            "methods": [],
            "proof": "00",
        }
        answer = {"jsonrpc": "2.0", "id": with_hello["id"], "result": welcome}
        await socket.send_message(msgspec.json.encode(answer).decode())
        try:
            while True:
                heard.append(str(await socket.get_message()))
        except trio_websocket.ConnectionClosed:
            pass

    async with trio.open_nursery() as nursery:
        server = await nursery.start(trio_websocket.serve_websocket, pretend, "127.0.0.1", 0, None)
        async with (
            two_nodes(url, tmp_path, reached_at=f"http://127.0.0.1:{server.port}") as (a, b),
            connect(a.url, a.token) as at_a,
            connect(b.url, b.token) as at_b,
        ):
            session = (await at_b.create_session()).session_id
            with pytest.raises(OverloadedError, match="no node of this cluster") as failed:
                await at_a.rename(session, "x")
            assert failed.value.kind == "owner"
            assert failed.value.retryable
            await at_b.rename(session, "Here it works")
        nursery.cancel_scope.cancel()
    assert heard == []


async def test_a_prompt_that_is_sent_again_at_another_node_is_done_once(
    url: str, tmp_path: Path
) -> None:
    async with two_nodes(url, tmp_path) as (a, b):
        token = await known_to(b, a.token)
        async with connect(a.url, token) as at_a, connect(b.url, token) as at_b:
            session = (await at_b.create_session()).session_id
            wanted = Prompt(session_id=session, content="Once.")
            first = await at_a.request("session/prompt", wanted, Ticket, key="the-key")
            again = await at_b.request("session/prompt", wanted, Ticket, key="the-key")
            third = await at_a.request("session/prompt", wanted, Ticket, key="the-key")
            assert first.input_id == again.input_id == third.input_id
            events = await b.runtime.store.events(session)
            assert sum(isinstance(each.event, InputAccepted) for each in events) == 1


async def test_nodes_are_named_to_tokens_without_limits(url: str, tmp_path: Path) -> None:
    async with two_nodes(url, tmp_path) as (a, b):
        session = await a.runtime.create_session()
        limited = a.new_token("limited", Role.ADMIN, sessions=(session.session_id,))
        async with connect(a.url, a.token) as client:
            names = {each.node_id: each.is_this for each in client.welcome.nodes}
            assert names == {"a": True, "b": False}
            assert f"http://127.0.0.1:{b.gateway.port}" in {n.url for n in client.welcome.nodes}
            assert client.welcome.proof == ""
        async with connect(a.url, limited) as client:
            assert client.welcome.nodes == ()


@callboard.tool(approval="always")
def launch(what: str) -> str:
    """Launches something."""
    return f"launched {what}"


async def test_people_answer_at_any_node(url: str, tmp_path: Path) -> None:
    steps = [
        reply(calls=[("launch", {"what": "it"})]),
        reply("Launched."),
        reply(calls=[("ask_user", {"question": "Which?"})]),
        reply("That."),
    ]
    heard: list[Stored] = []
    of_b: Any = {"steps": steps, "tools": [launch], "policy": "balanced"}
    async with (
        two_nodes(url, tmp_path, **of_b) as (a, b),
        connect(a.url, a.token) as at_a,
        connect(b.url, b.token) as at_b,
        trio.open_nursery() as nursery,
    ):
        session = (await at_b.create_session()).session_id
        nursery.start_soon(hear, at_a, session, heard)
        await at_a.prompt(session, "Launch it.")
        asked = await some(at_a.approvals)
        shown = await at_a.approval(asked[0].approval_id)
        assert shown.tool == "launch"
        assert shown.parameters is not None
        assert list(shown.parameters["properties"]) == ["what"]
        await at_a.answer(asked[0].approval_id, "allow")
        await until(lambda: ended(heard) == 1)
        with pytest.raises(ConflictError, match="is not open"):  # not of the kind `owner`
            await at_a.answer(asked[0].approval_id, "allow")
        await at_a.prompt(session, "Ask me.")
        questions = await some(at_a.questions)
        await at_a.answer_question(questions[0].question_id, "That one.")
        await until(lambda: ended(heard) == 2)
        said = [row.content for row in await at_a.messages(session) if row.type == "assistant"]
        assert said[-1] == "That."
        nursery.cancel_scope.cancel()


async def test_what_a_client_waits_for_is_called_off_at_the_owner_when_it_leaves(
    url: str, tmp_path: Path
) -> None:
    begun, gate = trio.Event(), trio.Event()

    @callboard.tool
    async def hold() -> str:
        """Ends when it is let."""
        begun.set()
        with trio.CancelScope(shield=True):
            await gate.wait()
        return "held"

    steps = [reply(calls=[("hold", {})])]
    async with (
        two_nodes(url, tmp_path, steps=steps, tools=[hold]) as (a, b),
        connect(b.url, b.token) as at_b,
    ):
        session = (await at_b.create_session()).session_id
        async with connect(a.url, a.token) as at_a, trio.open_nursery() as nursery:
            await at_a.prompt(session, "Hold.")
            await begun.wait()
            nursery.start_soon(at_a.cancel, session)  # waits for the end of the tool
            (accepted,) = relays_of(b).accepted
            assert isinstance(accepted, NodeConnection)
            await until(lambda: bool(accepted._relayed))
            nursery.cancel_scope.cancel()
        await until(lambda: not accepted._relayed)
        assert not gate.is_set()
        gate.set()


async def test_sessions_of_several_nodes_are_changed_in_one_request(
    url: str, tmp_path: Path
) -> None:
    async with (
        two_nodes(url, tmp_path) as (a, b),
        connect(a.url, a.token) as at_a,
        connect(b.url, b.token) as at_b,
    ):
        both = [(await each.create_session()).session_id for each in (at_a, at_b)]
        assert set(await at_a.delete_sessions(both)) == set(both)
        assert set(await at_b.restore_sessions(both)) == set(both)
        await at_a.set_agent(both, "general")
        with pytest.raises(NotFoundError, match="nobody"):
            await at_a.set_agent(both[::-1], "nobody")  # said by the other node


async def ask_http(daemon: Daemon, token: str, **fields: Any) -> Answer:
    body = msgspec.json.encode({"model": "general", "input": "Hello."} | fields)
    bearer = f"Bearer {token}"
    sent = request(daemon, "/v1/responses", body, connection="close", authorization=bearer)
    return await answer_to(daemon, sent)


async def test_what_hangs_on_a_connection_names_the_owner(url: str, tmp_path: Path) -> None:
    async with two_nodes(url, tmp_path) as (a, b):
        await known_to(b, a.token)
        answer = await ask_http(b, a.token)
        first = msgspec.json.decode(answer.body)["id"]
        where = f"runs on node b, at http://127.0.0.1:{b.gateway.port}"
        refused = await ask_http(a, a.token, previous_response_id=first)
        assert refused.status == 409
        assert where in refused.body
        again = await ask_http(b, a.token, previous_response_id=first)
        assert again.status == 200
        # The same for MCP and AG-UI; what is no turn is relayed, and comes back as its struct.
        session = node_of(b)._owned.copy().pop()
        credential = a.credentials.find(a.token)
        assert credential is not None
        caller = Caller(a.gateway.daemon, credential, None, via="mcp")
        prompting, changing = (METHODS.get(f"session/{verb}") for verb in ("prompt", "changes"))
        assert prompting is not None
        assert changing is not None
        with pytest.raises(ConflictError, match=where):
            await prompting.call(caller, prompting.params(session_id=session, content="Hello."))
        changes = await changing.call(caller, changing.params(session_id=session))
        assert isinstance(changes, Changes)

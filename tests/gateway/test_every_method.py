"""All methods of the table, one by one: who may not call them, or calls them wrongly, has no effect."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
from msgspec import inspect
from trio_websocket import ConnectionClosed

import callboard
from callboard.gateway.connection.method_table import Method, MethodTable
from callboard.gateway.methods.all import all_methods
from callboard.runtime.wire.fields import Nothing, Role
from callboard.runtime.wire.rpc import INVALID_PARAMS, NOT_AUTHORIZED, NOT_FOUND
from support.gateway.daemon_scene import (
    Daemon,
    RawClient,
    open_client,
    open_daemon,
    open_greeted,
    open_raw,
)
from support.gateway.raw_door import answer_to, handshake, head_of, upgrade
from support.gateway.type_examples import example

METHODS = {method.name: method for method in all_methods()}
WRONG: list[object] = [[[]]]
"""A value of no parameter's type."""


class Spies:
    """The table, with methods that only note that they were called."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def table(self) -> MethodTable:
        table = MethodTable()
        table._methods = {name: self._spied(method) for name, method in METHODS.items()}
        return table

    def _spied(self, method: Method) -> Method:
        def note(*_: object) -> Nothing:
            self.done.append(method.name)
            return Nothing()

        return msgspec.structs.replace(method, handler=note, is_slow=False)


@pytest.fixture
def spies(monkeypatch: pytest.MonkeyPatch) -> Spies:
    found = Spies()
    monkeypatch.setattr("callboard.gateway.gateway.all_methods", found.table)
    return found


def fields_of(method: Method) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(method.params)
    assert isinstance(info, inspect.StructType)
    return info.fields


def required(method: Method) -> dict[str, Any]:
    """The least that it takes."""
    return {each.encode_name: example(each.type) for each in fields_of(method) if each.required}


async def error_of(raw: RawClient, method: str, params: object) -> dict[str, Any]:
    await raw.send({"jsonrpc": "2.0", "id": "e", "method": method, "params": params})
    while (answer := await raw.receive()).get("id") != "e":
        pass
    assert "error" in answer, (method, params)
    error: dict[str, Any] = answer["error"]
    return error


# ── who may not ──────────────────────────────────────────────────────────────────────────────────


async def test_case_35_without_a_token_no_method_is_reached(spies: Spies) -> None:
    async with open_daemon() as daemon:
        for name, method in METHODS.items():
            body = msgspec.json.encode(
                {"jsonrpc": "2.0", "id": 1, "method": name, "params": required(method)}
            )
            headers = [
                ("host", f"127.0.0.1:{daemon.gateway.port}"),
                ("authorization", f"Bearer {daemon.token}"),
                ("content-length", str(len(body))),
            ]
            for target in ("/ws", "/", f"/{name}"):
                post = head_of(headers, target, "POST") + body
                assert (await answer_to(daemon, post)).status in {404, 405, 426}
        assert await upgrade(daemon, authorization=None) == 401
        early = head_of(handshake(daemon, authorization=None)) + b"\x81\x80\0\0\0\0"
        assert (await answer_to(daemon, early)).status == 400
    assert spies.done == []


@pytest.mark.parametrize("name", METHODS)
async def test_case_35_before_the_hello_a_method_does_nothing(name: str, spies: Spies) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": name, "params": required(METHODS[name])}
    async with open_daemon() as daemon:
        async with open_raw(daemon) as raw:
            await raw.send(call)
            with pytest.raises(ConnectionClosed, match="initialize"):
                await raw.receive()
        assert spies.done == []
        async with open_greeted(daemon) as raw:
            assert "result" in await raw.call(name, **required(METHODS[name]))
            assert spies.done == [name]
            await raw.send({"jsonrpc": "2.0", "id": 2, "method": "initialize"})
            await raw.send(call)
            with pytest.raises(ConnectionClosed, match="once"):
                await raw.receive()
    assert spies.done == [name]


async def test_a_role_below_the_methods_own_does_nothing(spies: Spies) -> None:
    async with open_daemon() as daemon:
        for role in Role:
            token = daemon.new_token(str(role), role)
            async with open_raw(daemon, token) as raw:
                offered = set((await raw.hello())["result"]["methods"])
                for name, method in METHODS.items():
                    spies.done.clear()
                    assert (name in offered) == role.includes(method.role)
                    if role.includes(method.role):
                        assert "result" in await raw.call(name, **required(method))
                        assert spies.done == [name]
                        continue
                    for params in (required(method), {"x": 1}, WRONG):
                        error = await error_of(raw, name, params)
                        assert error["code"] == NOT_AUTHORIZED
                        assert str(method.role) in error["message"]
                        assert error["data"]["type"] == "auth"
                    assert spies.done == []


@pytest.mark.parametrize("limits", [{"agents": ("general",)}, {"sessions": ("session_1",)}])
async def test_a_limited_token_administers_nothing(limits: dict[str, Any], spies: Spies) -> None:
    async with open_daemon() as daemon:
        token = daemon.new_token("part", Role.ADMIN, **limits)
        async with open_raw(daemon, token) as raw:
            offered = set((await raw.hello())["result"]["methods"])
            for name, method in METHODS.items():
                if method.role is not Role.ADMIN and not method.is_whole:
                    assert name in offered
                    continue
                assert name not in offered
                error = await error_of(raw, name, required(method))
                assert error["code"] == NOT_AUTHORIZED
                assert "limited" in error["message"]
    assert spies.done == []


# ── wrong parameters ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", METHODS)
async def test_wrong_parameters_are_named_and_do_nothing(name: str, spies: Spies) -> None:
    method = METHODS[name]
    right = required(method)
    wrong: list[tuple[object, str]] = [
        (WRONG, "Expected object"),
        ("x", "Expected object"),
        ({**right, "unheard_of": 1}, "unheard_of"),
    ]
    for each in fields_of(method):
        wrong.append(({**right, each.encode_name: WRONG}, each.encode_name))
        if each.required:
            rest = {key: value for key, value in right.items() if key != each.encode_name}
            wrong.append((rest, each.encode_name))
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        for params, told in wrong:
            error = await error_of(raw, name, params)
            assert error["code"] == INVALID_PARAMS, params
            assert told in error["message"]
            assert error["data"]["type"] == "validation"
        assert spies.done == []
        assert "result" in await raw.call(name, **right)
        assert spies.done == [name]


def test_parameters_are_built_of_known_types_alone() -> None:
    # Else a client would choose how deep, and of what, the things are that methods get.
    def check(kind: inspect.Type, path: str, above: tuple[type, ...]) -> None:
        assert not isinstance(kind, inspect.AnyType | inspect.RawType | inspect.CustomType), path
        if isinstance(kind, inspect.StructType):
            assert kind.cls not in above, f"{path} holds itself"
            for each in kind.fields:
                check(each.type, f"{path}.{each.name}", (*above, kind.cls))
        for part in ("item_type", "key_type", "value_type"):
            if (inner := getattr(kind, part, None)) is not None:
                check(inner, f"{path}.{part}", above)
        for inner in (*getattr(kind, "types", ()), *getattr(kind, "item_types", ())):
            check(inner, path, above)

    for name, method in METHODS.items():
        check(inspect.type_info(method.params), name, ())
        assert method.summary.endswith("."), name


# ── what a limited token does not see ────────────────────────────────────────────────────────────


WITH_SESSION = [
    name
    for name, method in METHODS.items()
    if method.role is not Role.ADMIN
    and any(each.encode_name == "session_id" for each in fields_of(method))
]


@pytest.mark.parametrize("limit", ["sessions", "agents"])
async def test_to_a_limited_token_a_hidden_session_is_one_that_does_not_exist(limit: str) -> None:
    agents = [callboard.Agent(name="other", prompt="")]
    async with open_daemon(agents=agents) as daemon, open_client(daemon) as admin:
        seen = await admin.create_session()
        hidden = await admin.create_session(agent="other")
        before = await _everything(daemon, hidden.session_id)
        limits: dict[str, Any] = (
            {"sessions": (seen.session_id,)} if limit == "sessions" else {"agents": ("general",)}
        )
        token = daemon.new_token("part", Role.APPROVER, **limits)
        async with open_greeted(daemon, token) as part, open_greeted(daemon) as whole:
            for name in WITH_SESSION:
                errors = []
                for session_id in (hidden.session_id, "session_none"):
                    params = {**required(METHODS[name]), "session_id": session_id}
                    answer = await part.call(name, **params)
                    if "result" in answer:  # a filter, by which nothing is found
                        assert _rows(answer["result"]) in ([], None), name
                    else:
                        code = NOT_AUTHORIZED if METHODS[name].is_whole else NOT_FOUND
                        assert answer["error"]["code"] == code, (name, answer)
                    errors.append(str(answer.get("error", "")).replace(session_id, "…"))
                assert errors[0] == errors[1], name
            sessions = (await part.call("session/list"))["result"]["sessions"]
            assert [each["session_id"] for each in sessions] == [seen.session_id]
            sessions = (await whole.call("session/list"))["result"]["sessions"]
            assert len(sessions) == 2
        assert await _everything(daemon, hidden.session_id) == before


def _rows(result: dict[str, Any]) -> Any:
    lists = [value for value in result.values() if isinstance(value, list)]
    return lists[0] if lists else None


async def _everything(daemon: Daemon, session_id: str) -> object:
    store = daemon.runtime.store
    return await store.session(session_id), await store.events(session_id)


async def test_to_a_limited_token_hidden_questions_grants_and_calls_do_not_exist() -> None:
    script = [callboard.reply(calls=[("delete_file", {"path": "old.txt"})])]
    async with open_daemon(callboard.ScriptedModel(script)) as daemon, open_client(daemon) as admin:
        seen, hidden = [await admin.create_session(), await admin.create_session()]
        await admin.prompt(hidden.session_id, "Delete old.txt.")
        with trio.fail_after(10):
            while not (waiting := await admin.approvals()):  # noqa: ASYNC110  see topics
                await trio.sleep(0.01)
        (approval,) = waiting
        token = daemon.new_token("part", Role.APPROVER, sessions=(seen.session_id,))
        async with open_greeted(daemon, token) as part:
            assert (await part.call("approval/list"))["result"]["approvals"] == []
            assert (await part.call("tool/history"))["result"]["calls"] == []
            for name, params in (
                ("approval/get", {"approval_id": approval.approval_id}),
                ("approval/resolve", {"approval_id": approval.approval_id, "decision": "allow"}),
                ("approval/get", {"approval_id": "approval_none"}),
                ("grant/revoke", {"grant_id": "grant_none"}),
                ("question/answer", {"question_id": "question_none"}),
                ("memory/delete", {"memory_id": "memory_none"}),
            ):
                error = await error_of(part, name, params)
                assert error["code"] == NOT_FOUND, (name, error)
        assert [each.state for each in await admin.approvals()] == ["waiting"]
        await admin.answer(approval.approval_id, "deny")

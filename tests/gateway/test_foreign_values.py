"""Numbers and texts that no store takes, in each place where a client may put one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import trio
from msgspec import inspect

from callboard.gateway.connection.method_table import Method
from callboard.gateway.methods.all import all_methods
from callboard.runtime.wire.rpc import INTERNAL_ERROR, STORAGE_FAILED
from support.gateway.daemon_scene import RawClient, open_daemon, open_greeted
from support.gateway.raw_door import PATIENCE
from support.gateway.type_examples import example

NUMBERS = (2**63, -(2**63) - 1, 2**200)
TEXTS = ("a\0b", "/\ud800", "/" + "x" * 5000)
WITH_PARAMETERS = [
    method
    for method in all_methods()
    if method.name != "runtime/shutdown" and method.params.__struct_fields__
]


def places(kind: inspect.Type, right: Any) -> Iterator[tuple[inspect.Type, Any]]:
    """Each number and text of a type: itself, and how to make a whole value of another one there."""
    match kind:
        case inspect.IntType() | inspect.StrType():
            yield kind, lambda value: value
        case inspect.UnionType():
            for each in kind.types:
                yield from places(each, example(each))
        case inspect.VarTupleType() | inspect.ListType() | inspect.SetType():
            for inner, put in places(kind.item_type, example(kind.item_type)):
                yield inner, lambda value, put=put: [put(value)]
        case inspect.StructType():
            for field in kind.fields:
                for inner, put in places(field.type, example(field.type)):
                    name = field.encode_name
                    yield inner, lambda value, n=name, put=put: {**right, n: put(value)}
        case _:
            return


def foreign(method: Method, session_id: str) -> Iterator[Any]:
    """Parameters with one foreign value each; a session that is named exists."""
    info = inspect.type_info(method.params)
    right = example(info)
    if "session_id" in right:
        right["session_id"] = session_id
    for kind, put in places(info, right):
        for value in NUMBERS if isinstance(kind, inspect.IntType) else TEXTS:
            yield put(value)


async def answer(raw: RawClient, method: str, params: Any) -> dict[str, Any]:
    frame = {"jsonrpc": "2.0", "id": "f", "method": method, "params": params}
    await raw.send(json.dumps(frame))  # which can write a lone surrogate
    with trio.fail_after(PATIENCE):
        while (answer := await raw.receive()).get("id", "") not in {"f", None}:
            pass
    return answer


def test_every_number_of_a_request_is_one_that_can_be_stored() -> None:
    for method in WITH_PARAMETERS:
        for kind, _ in places(inspect.type_info(method.params), {}):
            if isinstance(kind, inspect.IntType):
                assert kind.ge is not None, method.name
                assert kind.le is not None, method.name
                assert -(2**63) <= kind.ge <= kind.le < 2**63


async def test_no_value_of_a_request_is_an_error_of_the_server() -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        new = await raw.call("session/new")
        session_id = new["result"]["session_id"]
        bad = []
        for method in WITH_PARAMETERS:
            for params in foreign(method, session_id):
                found = await answer(raw, method.name, params)
                code = found.get("error", {}).get("code")
                if code in {INTERNAL_ERROR, STORAGE_FAILED}:
                    bad.append((method.name, repr(params)[:100], found["error"]["message"]))
        assert bad == []
        assert (await raw.call("session/get", session_id=session_id))["result"]

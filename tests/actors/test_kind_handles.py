"""What a kind of session can act with, whatever is registered and offered."""

from __future__ import annotations

from itertools import product
from typing import Any, cast

import msgspec
import pytest

import callboard
from callboard.actors.calls.call import CallPreparation
from callboard.actors.handles.open_handles import OpenHandles
from callboard.config.settings import Limits
from callboard.runtime.definitions import Capability, ErrorType, SessionKind, Tier, ToolFailure
from callboard.runtime.history import Call
from callboard.runtime.messages import CallPlace
from callboard.tools import registry
from callboard.tools.registry import HANDLES, TIERS, ToolRegistry, is_available
from callboard.tools.tool import FunctionTool
from support.scene import place_of

WORKER_HAS = {Capability.FILES_READ, Capability.NETWORK, Capability.MEMORY_READ}
HANDED_OUT = {
    Capability.FILES_READ, Capability.FILES_WRITE, Capability.NETWORK, Capability.CHANNEL,
    Capability.SESSIONS, Capability.MEMORY_READ, Capability.MEMORY_WRITE,
}  # fmt: skip
"""What there is to hand out so far: processes have no handle yet."""


class Everything:
    """Hands out whatever it is asked for, and keeps what that was."""

    def __init__(self) -> None:
        self.network = object()
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        def give(*_: object) -> object:
            self.asked.add(name)
            return Everything()  # has whatever is taken from it

        return give


def tool_that_needs(*needs: Capability, tier: Tier = Tier.READ_ONLY) -> FunctionTool:
    @callboard.tool(tier=tier, needs=needs)
    def act(context: callboard.ToolContext) -> str:
        """Acts."""
        return "acted"

    return act


def test_the_table_is_that_of_the_design() -> None:
    for kind in (SessionKind.MAIN, SessionKind.BRANCH):
        assert HANDLES[kind] == set(Capability)
        assert TIERS[kind] == set(Tier)
    assert HANDLES[SessionKind.WORKER] == WORKER_HAS
    assert TIERS[SessionKind.WORKER] == {Tier.READ_ONLY}
    assert HANDLES.keys() == TIERS.keys() == set(SessionKind)


@pytest.mark.parametrize(("tier", "need"), list(product(Tier, Capability)))
def test_what_is_offered_follows_from_it(tier: Tier, need: Capability) -> None:
    definition = tool_that_needs(need, tier=tier).definition
    assert is_available(definition, SessionKind.MAIN)
    assert is_available(definition, SessionKind.BRANCH)
    fits = tier is Tier.READ_ONLY and need in WORKER_HAS
    assert is_available(definition, SessionKind.WORKER) is fits


@pytest.mark.parametrize(("kind", "need"), list(product(SessionKind, sorted(HANDED_OUT))))
def test_a_call_gets_no_other_handle_even_if_its_tool_is_offered(
    kind: SessionKind, need: Capability, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the offer were wrong: the tool is found, and has nothing to act with."""
    monkeypatch.setattr(registry, "is_available", lambda *_: True)
    handles = Everything()
    tools = ToolRegistry([tool_that_needs(need)])
    preparation = CallPreparation(tools, cast(OpenHandles, handles), Limits())
    place = place_in(kind)
    call = Call("c1", "act", "{}")
    if need in HANDLES[kind]:
        ready = preparation.ready(place, call, "{}")
        assert getattr(ready.context, need.value.replace(".", "_")) is not None
        return
    with pytest.raises(ToolFailure, match=f"needs {need.value}") as failure:
        preparation.ready(place, call, "{}")
    assert failure.value.error_type is ErrorType.PERMISSION_DENIED
    assert need.value.replace(".", "_") not in handles.asked


def place_in(kind: SessionKind) -> CallPlace:
    return msgspec.structs.replace(place_of(), session_kind=kind)

"""Places in the traces of other programs: what is taken, and what is dropped."""

from __future__ import annotations

import pytest

from callboard.gateway.door.http import RequestHead
from callboard.runtime.identity import MAX_TRACESTATE, TraceContext, checked_trace

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
USABLE = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize("parent", [USABLE, f"00-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-ff"])
def test_a_traceparent_is_taken_as_it_is(parent: str) -> None:
    given = TraceContext(parent, "vendor=value,other=1")
    assert checked_trace(given) == given


@pytest.mark.parametrize(
    "parent",
    [
        *("", USABLE.upper(), f" {USABLE}", f"{USABLE}\n", f"{USABLE}-more", USABLE[:-1]),
        *(f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01"),
    ],
)
def test_a_malformed_one_is_dropped(parent: str) -> None:
    assert checked_trace(TraceContext(parent, "vendor=value")) is None


@pytest.mark.parametrize("state", ["a=1\r\nX: 1", "a=é", "a" * (MAX_TRACESTATE + 1)])
def test_a_state_that_can_be_no_header_is_left_out(state: str) -> None:
    assert checked_trace(TraceContext(USABLE, state)) == TraceContext(USABLE)


def test_a_request_has_its_headers_place_and_two_are_none() -> None:
    def head(*headers: tuple[str, str]) -> RequestHead:
        return RequestHead(method="POST", target="/", headers=headers, received=b"")

    one = ("traceparent", USABLE)
    assert head(one, ("tracestate", "a=1"), ("tracestate", "b=2")).trace == TraceContext(
        USABLE, "a=1,b=2"
    )
    assert head(one, one).trace is None
    assert head(("tracestate", "a=1")).trace is None

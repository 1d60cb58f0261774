"""A delivery for a session of another node of the cluster: it is posted there as it came, and judged there again."""

from __future__ import annotations

from urllib.parse import quote

import trio

from ...runtime.errors import CallboardError, SessionElsewhere
from ...runtime.http.client import HttpClient
from ...runtime.redaction import redacting_logger
from ..door.exchange import Exchange
from ..door.http import JSON, BadHead, HttpAnswer

logger = redacting_logger(__name__)

PASSED_ON = "callboard-passed-on"
"""The header of a delivery that comes from another node: it is passed on no further."""
PATIENCE_SECONDS = 5.0
"""How long a delivery waits for an owner that can't be reached, or for the next one, as a relayed request does."""
AGAIN_SECONDS = 0.2
MAX_ANSWER_BYTES = 16 * 1024
"""An answer names a session and an input; a refusal is a line."""
_OF_THIS_HOP = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "expect", "te", "upgrade",
     "keep-alive", "accept-encoding", "proxy-authorization", "cookie"}
)  # fmt: skip
_LATER = (("retry-after", "5"),)


async def pass_on(
    http: HttpClient, exchange: Exchange, body: bytes, owner: SessionElsewhere
) -> HttpAnswer | None:
    """Post a delivery at the node that owns its session; return its answer, `None` if it is not reached.

    Raises:
        BadHead: It was passed on before; the node does not take it; or the node has no address.
    """
    head = exchange.head
    if head.one(PASSED_ON) is not None or not owner.url:
        raise BadHead(503, f"session {owner.session_id} changes its node: try again soon", _LATER)
    first = reversed(head.headers)  # of each name: it is what was judged here
    headers = {name: value for name, value in first if name not in _OF_THIS_HOP}
    url = f"{owner.url.rstrip('/')}/hooks/{quote(exchange.rest, safe='')}"
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            async with http.stream_post(url, {**headers, PASSED_ON: "1"}, body) as answer:
                told = await answer.read_all(MAX_ANSWER_BYTES)
    except (CallboardError, trio.TooSlowError) as error:
        logger.warning(
            "a delivery of the hook %s is not passed on to %s yet: %s",
            exchange.rest, owner.url, str(error) or "no answer",
        )  # fmt: skip
        return None
    if answer.status == 202:
        return HttpAnswer(202, told, JSON)
    if answer.status == 429:
        raise BadHead(
            429,
            told.decode(errors="replace").strip(),
            (("retry-after", answer.headers.get("retry-after", "60")),),
        )
    if answer.status == 401:
        logger.error(
            "the hook %s, or its secret, is not the same at %s: give all nodes of the cluster the same hooks",
            exchange.rest, owner.url,
        )  # fmt: skip
    raise BadHead(
        503, f"the node that runs session {owner.session_id} says {answer.status}", _LATER
    )

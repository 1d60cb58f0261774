"""The first request of a connection: which version both speak, and what the server has to offer."""

from __future__ import annotations

import importlib.metadata
from functools import cache
from typing import get_args

from ...config.keys.tokens import Credential
from ...config.sections import ServerSettings
from ...runtime.errors import ConflictError
from ...runtime.events import DurableEvent, LiveEvent
from ...runtime.wire.hello import Hello, ServerName, Welcome, WireLimits
from ...runtime.wire.rpc import PROTOCOL
from .method_table import MethodTable

HELLO = "initialize"


FEATURES = ("resume", "snapshot", "topics", "idempotency")

EVENTS = tuple(str(kind.__struct_config__.tag) for kind in get_args(DurableEvent | LiveEvent))
"""What a `session/update` may bring."""


def welcome(
    hello: Hello,
    credential: Credential,
    table: MethodTable,
    settings: ServerSettings,
    epoch: str,
    seq: int,
) -> Welcome:
    """The answer to a client that speaks a common version; raises `ConflictError` otherwise."""
    if not hello.protocol.min <= PROTOCOL <= hello.protocol.max:
        raise ConflictError(
            f"this server speaks protocol {PROTOCOL}, the client {hello.protocol.min} to "
            f"{hello.protocol.max}: upgrade the older of the two"
        )
    return Welcome(
        protocol=PROTOCOL,
        server=ServerName("callboard", _own_version()),
        epoch=epoch,
        seq=seq,
        role=str(credential.role),
        limits=WireLimits(
            settings.max_frame_bytes, settings.max_outbox_bytes, settings.ping_seconds
        ),
        features=FEATURES,
        methods=tuple(each.name for each in table if each.refusal(credential) is None),
        events=EVENTS,
    )


@cache
def _own_version() -> str:
    """Read once: it takes as long as the rest of a connection's beginning."""
    return importlib.metadata.version("callboard")

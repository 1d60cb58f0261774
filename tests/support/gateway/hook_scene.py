"""A daemon with hooks, and what other systems send to it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

import callboard
from callboard.config.files import parse_settings
from callboard.config.keys.store import open_key_store
from callboard.config.keys.tokens import Credentials
from callboard.config.sections import ClusterSettings, ServerSettings
from callboard.config.settings import KeySettings, StoreSettings
from callboard.gateway.gateway import listen, open_gateway
from callboard.runtime.hooks.hook import SECRET_PLACE, key_name, webhook_key_name
from callboard.runtime.redaction import Secret
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon
from support.gateway.door_scene import request
from support.gateway.raw_door import Answer, answer_to

SECRET = "s3cret-of-a-test-0123456789"


@asynccontextmanager
async def open_hooked(
    home: Path,
    text: str,
    model: Any = "rehearsal",
    *,
    node_at: tuple[str, str] | None = None,
    reached_at: str = "",
    server: ServerSettings | None = None,
) -> AsyncGenerator[Daemon]:
    """A daemon with the hooks of a TOML text, all of which have the same secret; or a node, of this name and database."""
    server, listeners = server or ServerSettings(port=0), None
    data, environ = home / "data", {"CALLBOARD_HOME": str(home)}
    settings = parse_settings(text, home / "callboard.toml")
    if node_at is not None:
        name, database = node_at
        listeners = await listen(server)
        at = reached_at or f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        settings = msgspec.structs.replace(
            settings,
            store=StoreSettings(url=database),
            cluster=ClusterSettings(node=name, url=at),
        )
    store = open_key_store(data, KeySettings(), environ)
    names = [*map(key_name, settings.hooks), *map(webhook_key_name, settings.webhooks)]
    for name in names:
        if name != key_name("keyless"):
            store.put(name, SECRET_PLACE, Secret(SECRET))
    work = home / "work"
    work.mkdir(exist_ok=True)
    credentials = Credentials(data)
    token = ""
    if not credentials.list():
        token = credentials.create("test", Role.ADMIN).reveal()
    async with (
        callboard.open_runtime(
            model=model,
            workspace=work,
            data=data,
            on_approval="wait",
            settings=settings,
            environ=environ,
        ) as runtime,
        open_gateway(runtime, server, data, listeners=listeners) as gateway,
    ):
        yield Daemon(gateway, runtime, credentials, token)


def hex_mac(*parts: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), b"".join(parts), hashlib.sha256).hexdigest()


def by_github(body: bytes, name: str = "d-1", *, secret: str = SECRET) -> dict[str, str]:
    mac = hex_mac(body, secret=secret)
    return {
        "x_hub_signature_256": f"sha256={mac}",
        "x_github_delivery": name,
        "x_github_event": "push",
    }


def by_stripe(body: bytes, at: int, *, secret: str = SECRET) -> dict[str, str]:
    mac = hex_mac(b"%d." % at, body, secret=secret)
    return {"stripe_signature": f"t={at},v1={mac},v0=old"}


def by_standard(
    body: bytes, at: int, name: str = "msg-1", *, secret: str = SECRET
) -> dict[str, str]:
    key = f"{name}.{at}.".encode()
    mac = base64.b64encode(bytes.fromhex(hex_mac(key, body, secret=secret))).decode()
    return {
        "webhook_id": name,
        "webhook_timestamp": str(at),
        "webhook_signature": f"v1,{mac}",
    }


def by_bearer(name: str | None = None, *, secret: str = SECRET) -> dict[str, str]:
    named = {} if name is None else {"idempotency_key": name}
    return {"authorization": f"Bearer {secret}", **named}


async def deliver(daemon: Daemon, hook: str, body: bytes, headers: dict[str, str]) -> Answer:
    """Sends a delivery as JSON."""
    sent: dict[str, Any] = {"authorization": None, **headers, "connection": "close"}
    return await answer_to(daemon, request(daemon, f"/hooks/{hook}", body, **sent))


def made(answer: Answer) -> tuple[str, str]:
    """The session and the input that an answer names."""
    assert answer.status == 202, answer
    found = msgspec.json.decode(answer.body)
    return found["session_id"], found["input_id"]

"""What context windows local servers give, which are mostly smaller than those of their models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import trio

from ...runtime.errors import CallboardError
from ...runtime.http.client import HttpClient
from ..openai.models import read_own_window, read_running_windows, read_set_window
from ..provider import Endpoint

MAX_ASIDE_BYTES = 1024 * 1024
"""Largest answer of `/props` or `/api/show`: a chat template is some 10 KB, a license 50."""
MAX_SHOWN = 20
"""Models of an Ollama server that are asked about one by one: more than most machines have."""
LOOK_SECONDS = 2.0
"""How long a model call waits to hear of its window: a server on this machine says it in a millisecond."""


async def windows_of(
    http: HttpClient,
    endpoint: Endpoint,
    server: Literal["llamacpp", "ollama"],
    names: Sequence[str],
) -> dict[str, int]:
    """Return the windows that a server gives to requests for these models, as far as it says them."""
    if server == "llamacpp":
        window = read_own_window(await _ask(http, endpoint, "/props"))
        return {} if window is None else dict.fromkeys(names, window)
    running = read_running_windows(await _ask(http, endpoint, "/api/ps"))
    tagged = {name: name if ":" in name else f"{name}:latest" for name in names}
    windows = {name: running[tag] for name, tag in tagged.items() if tag in running}
    for name in [name for name in names if name not in windows][:MAX_SHOWN]:
        shown = await _ask(http, endpoint, "/api/show", msgspec.json.encode({"model": name}))
        if (window := read_set_window(shown)) is not None:
            windows[name] = window
    return windows


async def silent_window(http: HttpClient, endpoint: Endpoint, model: str) -> int | None:
    """Return the window to which an Ollama server cuts off a request for a model, if it says it in time."""
    with trio.move_on_after(LOOK_SECONDS):
        return (await windows_of(http, endpoint, "ollama", [model])).get(model)
    return None


async def _ask(http: HttpClient, endpoint: Endpoint, path: str, body: bytes | None = None) -> bytes:
    """Return what a server says at a path beside the wire format's; nothing where it does not."""
    url = endpoint.base_url.removesuffix("/v1") + path
    key = endpoint.dialect.auth_headers(endpoint.key.reveal()) if endpoint.key else {}
    headers = {"accept": "application/json", "content-type": "application/json", **key}
    try:
        asks = (
            http.stream_get(url, headers) if body is None else http.stream_post(url, headers, body)
        )
        async with asks as answer:
            content = await answer.read_all(MAX_ASIDE_BYTES + 1)
    except CallboardError:
        return b""  # other figures hold, or none
    return content if answer.status == 200 and len(content) <= MAX_ASIDE_BYTES else b""

"""The checks of `callboard doctor` beyond the disk: configuration, model, provider, port, daemon."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import trio

from ...client.client import connect
from ...config.daemon_file import RunningDaemon, find_daemon
from ...config.files import config_file, load_own_settings, load_settings
from ...config.sections import ServerSettings
from ...config.settings import Settings
from ...embedding.models import open_finder
from ...gateway.door.descriptors import RESERVED, room_after_raising
from ...providers.catalog.catalog import ModelSelection
from ...providers.catalog.known import LOCAL_ORDER
from ...providers.catalog.lists import fetch_models
from ...providers.provider import Endpoint, ListedModel
from ...runtime.errors import AuthError, CallboardError
from ...runtime.http.client import open_http_client
from ...runtime.wire.daemon import Status
from .finding import Finding, good, problem, warning

SMALL_WINDOW = 16_000
"""With fewer tokens there is little room beside the definitions of the tools."""
CONNECT_SECONDS = 5.0
"""Time to connect to a provider or the daemon: one that takes longer counts as away."""


def read_settings(config: Path | None) -> tuple[Settings, Finding]:
    """Return the settings, or the defaults and what is wrong with the file."""
    file = config_file(config)
    try:
        settings = load_settings(config)
    except CallboardError as error:
        return Settings(), problem("configuration", str(error), f"fix it: $EDITOR {file}")
    there = f"{file}" if file.exists() else f"{file} does not exist; the defaults apply"
    return settings, good("configuration", there)


async def reach_findings(settings: Settings, data: Path, config: Path | None) -> list[Finding]:
    """Return the findings beyond the disk; `config` is the configuration file as a person named it."""
    findings = await _model(settings, data, config)
    try:
        daemon = find_daemon(data)
    except CallboardError:
        daemon = None  # the check of the locks says so
    if daemon is None:
        findings.append(await trio.to_thread.run_sync(_port, settings.server))
    else:
        findings.append(await _daemon(daemon))
    findings.append(_connections(settings.server))
    return findings


def _connections(settings: ServerSettings) -> Finding:
    """Check whether a daemon may open as many files as its connections need."""
    wanted = settings.max_connections
    room = room_after_raising(wanted)
    if room >= wanted:
        return good("connections", f"there is room for {wanted}")
    return warning(
        "connections",
        f"[server] max_connections is {wanted}; a process may open so few files that {room} fit",
        f"`ulimit -n {wanted + RESERVED}`, or LimitNOFILE={wanted + RESERVED} of its service",
    )


async def _model(settings: Settings, data: Path, config: Path | None) -> list[Finding]:
    """Check the default model: whether there is one, its key, and its provider."""
    selection = ModelSelection(settings=settings, environ=os.environ)
    try:
        target = open_finder(selection, None, data).target(None)
    except AuthError as error:
        return [problem("keys", str(error), "`callboard keys set PROVIDER`")]
    except CallboardError as error:
        return [problem("model", str(error), _another_model(settings, config))]
    name = f"{target.provider}/{target.model}"
    if target.endpoint is None:
        return [
            warning(
                "model",
                f"{name} answers: a set of rules, since no model is configured and there is no key",
                "`callboard keys set PROVIDER`, or run a local server",
            )
        ]
    provider = await _provider(target.endpoint)
    windows = await _window(target.endpoint, target.model) if provider.state == "good" else []
    return [good("model", name), provider, *windows]


async def _window(endpoint: Endpoint, model: str) -> list[Finding]:
    """Check whether a local server gives its model a window in which work fits."""
    if endpoint.name not in LOCAL_ORDER:
        return []
    listed: tuple[ListedModel, ...] = ()
    with suppress(CallboardError, trio.TooSlowError), trio.fail_after(CONNECT_SECONDS):
        async with open_http_client() as http:
            listed = await fetch_models(http, endpoint)
    tokens = next((each.context_tokens for each in listed if each.model == model), None)
    if tokens is None:
        return []  # the server says it once the model is loaded
    if tokens >= SMALL_WINDOW:
        return [good("window", f"{endpoint.name} gives {model} {tokens} tokens")]
    is_ollama = endpoint.name == "ollama"
    start = "OLLAMA_CONTEXT_LENGTH=32768 ollama serve" if is_ollama else "llama-server -c 32768 …"
    more = ", and what is longer it cuts off without a word" if is_ollama else ""
    said = f"{endpoint.name} gives {model} a window of {tokens} tokens, too few for tools and files{more}"
    return [warning("window", said, start)]


def _another_model(settings: Settings, config: Path | None) -> str:
    """Return how to choose another model: the person's own file wins over what commands write."""
    if settings.model is not None and load_own_settings(config).model == settings.model:
        return f"write another model into it: $EDITOR {config_file(config)}"
    return "`callboard models default PROVIDER/MODEL` chooses another one"


async def _provider(endpoint: Endpoint) -> Finding:
    """Check whether the provider's address takes connections; `providers test` asks it for a word."""
    where = urlsplit(endpoint.base_url)
    port = where.port or (443 if where.scheme == "https" else 80)
    try:
        with trio.fail_after(CONNECT_SECONDS):
            stream = await trio.open_tcp_stream(where.hostname or "", port)
    except trio.TooSlowError:
        why = f"no answer within {CONNECT_SECONDS:g} s"
    except OSError as error:
        why = str(error)
    else:
        await trio.aclose_forcefully(stream)
        return good("provider", f"{endpoint.name} is there, at {where.hostname}:{port}")
    return problem(
        "provider",
        f"{endpoint.name} at {where.hostname}:{port} can't be reached: {why}",
        f"start it, or check the network, then: `callboard providers test {endpoint.name}`",
    )


def _port(settings: ServerSettings) -> Finding:
    """Check whether `callboard serve` could listen on its port."""
    where = f"{settings.host}:{settings.port}"
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            own.bind((settings.host, settings.port))
        except OSError as error:
            fix = "`callboard serve --port 0` takes a free one; [server] port keeps it"
            return warning("port", f"{where} can't be taken: {error.strerror or error}", fix)
    return good("port", f"{where} is free; no daemon runs")


async def _daemon(daemon: RunningDaemon) -> Finding:
    """Check whether the daemon answers, and is well."""
    status: Status | None = None
    why = ""
    try:
        with trio.fail_after(CONNECT_SECONDS):
            async with connect(daemon.url, daemon.token.reveal()) as client:
                status = await client.status()
    except trio.TooSlowError:
        why = f"no answer within {CONNECT_SECONDS:g} s"
    except CallboardError as error:
        why = str(error)
    where = f"process {daemon.pid}, at {daemon.url}"
    if status is None:
        fix = "`callboard logs` says why; `callboard stop`, then `callboard serve`"
        return problem("daemon", f"it does not answer ({where}): {why}", fix)
    if status.config is not None and status.config.problem:
        fix = "fix the file; it is read again by itself"
        return problem("daemon", f"it can't use its configuration: {status.config.problem}", fix)
    if status.config is not None and status.config.waiting:
        names = ", ".join(status.config.waiting)
        fix = "`callboard stop`, then `callboard serve`"
        return warning("daemon", f"these settings need a restart: {names}", fix)
    return good("daemon", where)

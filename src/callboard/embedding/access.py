"""What a runtime's tools get from outside: search engine, memory index, development tools."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.base_url import checked_base_url, origin
from ..config.mcp.settings import MCP_KEYS, key_place, resolved
from ..config.search_engines import engine_of
from ..config.sections import (
    GIT_KEYS,
    OTEL_KEY,
    MemoryPlace,
    MemorySearch,
    MemorySettings,
    is_name,
)
from ..config.settings import Settings
from ..providers.catalog.catalog import ModelSelection
from ..providers.catalog.keys import find_key
from ..runtime.errors import ValidationError
from ..runtime.memory.index import MemoryIndex
from ..runtime.redaction import Secret, redactor
from ..tools.processes.system_programs import find_system_program
from ..tools.workshop import Author, Workshop

if TYPE_CHECKING:
    from ..actors.cluster.node import ClusterNode
    from ..config.in_force import InForce
    from ..runtime.http.client import HttpClient
    from ..runtime.taint.tracked_network import Connect
    from ..runtime.telemetry.telemetry import SpanProcessor, Telemetry
    from ..tools.mcp.servers import McpServers
    from ..tools.registry import ToolRegistry
    from ..tools.sandbox.sandbox import Sandbox
    from ..tools.web.search import SearchPlace
    from .host import OpenServers


def node_of(settings: Settings) -> ClusterNode | None:
    """Return this process's part in the cluster that the settings name; `None` when it is alone."""
    if not settings.cluster.node:
        return None
    from ..actors.cluster.opening import open_node  # here: most runtimes are alone

    return open_node(settings)


def search_place(settings: Settings, wish: ModelSelection) -> SearchPlace | None:
    """Return the configured search engine with its key; `None` when none is configured."""
    engine = engine_of(settings.search)
    if engine is None:
        return None
    from ..tools.web.search import SearchPlace

    name, url, variable = engine.name, engine.base_url, engine.key_env
    return SearchPlace(
        engine=name,
        base_url=url,
        key=lambda: find_key(name, url, variable, wish.environ, wish.stored),
        needs_key=engine.needs_key,
        missing=f"{name} needs a key, and there is none for {url}. The operator stores one with "
        f"`callboard keys set {name}`, or sets {variable}.",
    )


NEEDED = {
    MemoryPlace.SQLITE: ("vectors", ("sqlite_vec", "wordllama", "tokenizers", "numpy")),
    MemoryPlace.LANCEDB: ("lancedb", ("lancedb", "wordllama", "tokenizers", "numpy")),
}
"""The extra to install for each place, and the packages that it brings."""


def memory_index(
    settings: MemorySettings, folder: Path | None, *, is_read_only: bool = False
) -> MemoryIndex | None:
    """Return the configured index, which opens nothing yet; `None` when words are enough.

    Args:
        settings: The section `[memory]`.
        folder: The data folder, or `None` to keep it in memory.
        is_read_only: For a command that only searches, beside a runtime that may be running.

    Raises:
        ValidationError: Its packages are not installed; the message says how to install them.
    """
    if settings.search is MemorySearch.WORDS:
        return None
    extra, packages = NEEDED[settings.store]
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ValidationError(
            f'[memory] search = "{settings.search}", store = "{settings.store}" needs '
            f"{', '.join(missing)}: pip install 'callboard[{extra}]', or take that out of "
            "callboard.toml to search by words.",
            field="memory.search",
        )
    from ..runtime.memory.static_embedding import (
        StaticEmbedding,  # here: most runtimes need none of it
    )

    if settings.store is MemoryPlace.LANCEDB:
        from ..runtime.memory.lance_table import LanceTable

        return LanceTable(folder, StaticEmbedding(), is_read_only=is_read_only)
    from ..runtime.memory.vector_file import VectorFile

    return VectorFile(folder, StaticEmbedding(), is_read_only=is_read_only)


OTEL_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
"""What the extra `otel` brings."""


def telemetry_of(
    force: InForce, registry: ToolRegistry, wish: ModelSelection, processor: SpanProcessor | None
) -> Telemetry | None:
    """Return what makes traces and metrics; `None` when nobody wants any, and then nothing of it is imported.

    Raises:
        ValidationError: Its packages are not installed, or a header refers to what is not there.
    """
    settings = force.settings.telemetry
    if not settings.enabled and processor is None:
        return None
    if missing := [name for name in OTEL_PACKAGES if not _is_installed(name)]:
        raise ValidationError(
            f"[telemetry] needs {', '.join(missing)}: pip install 'callboard[otel]', or take "
            "enabled = true out of callboard.toml.",
            field="telemetry.enabled",
        )
    from ..providers.catalog.table import providers_of
    from ..runtime.telemetry.telemetry import Telemetry, TelemetryPlan  # here: most have none

    endpoint = settings.endpoint
    place = "" if endpoint is None else origin(endpoint)

    def find(kind: str, name: str) -> str:
        secret = wish.stored(OTEL_KEY, place) if kind == "key" else None
        found = wish.environ.get(name) if kind == "env" else secret and secret.reveal()
        if not found:
            advice = {
                "env": f"set {name} in the environment",
                "key": f"`callboard keys set {name}`",
            }
            raise ValidationError(
                f"[telemetry] headers: ${{{kind}:{name}}} is not there for {place}: {advice[kind]}.",
                field="telemetry.headers",
            )
        redactor.add(Secret(found))
        return found

    def url_of(provider: str) -> str:
        known = providers_of(force.settings).get(provider)
        return wish.base_url or (known.base_url if known is not None else "")

    headers = {} if processor is not None else resolved(settings.headers, find)
    plan = TelemetryPlan(
        service=settings.service_name,
        endpoint=endpoint,
        headers={name: Secret(value) for name, value in headers.items()},
        sample=settings.sample,
        propagate=frozenset(settings.propagate),
        with_content=settings.content == "full",
        signals=settings.signals,
        processor=processor,
        agent=force.agents.get,
        tool=lambda name, session_id: registry.of(session_id).definition(name),
        provider_url=url_of,
    )
    return Telemetry(plan)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


GIT_SECONDS = 5.0
"""The time for git to read its configuration: a home folder on a broken network never answers."""

MAX_CERTIFICATE_BYTES = 4 * 1024 * 1024
"""A file with all public authorities takes a quarter of it."""

_INDEXES = {
    "PIP_INDEX_URL": "PIP_INDEX_URL",
    "NPM_CONFIG_REGISTRY": "NPM_CONFIG_REGISTRY",
    "npm_config_registry": "NPM_CONFIG_REGISTRY",
}
"""Variables of the operator, and the variable that package managers get for each."""


def workshop_of(settings: Callable[[], Settings], wish: ModelSelection) -> Workshop:
    """Return what development tools need from outside, looked up at each use: `settings` too."""
    environ, stored = wish.environ, wish.stored  # and not its settings, which may be others by then
    return Workshop(
        author=lambda: _author(settings(), environ),
        credential=lambda origin: stored(GIT_KEYS, origin),
        certificates=lambda: _certificates(environ),
        test_command=lambda: settings().tests.command,
        indexes=_indexes(environ),
    )


def servers_of(sandbox: Sandbox, data: Path | None, wish: ModelSelection) -> OpenServers:
    """Return what makes the servers of `[mcp]`; nothing of them is imported before that."""
    # And not its settings, which may be others by then: keys stay where they are.
    environ, stored, keys = wish.environ, wish.stored, wish.settings.keys

    def make(
        registry: ToolRegistry,
        connect: Connect | None,
        http: HttpClient,
        tell: Callable[[], None],
        is_loaded: Callable[[str], bool],
    ) -> McpServers:
        from ..config.keys.store import open_key_store
        from ..tools.mcp.servers import McpServers
        from ..tools.mcp.state import McpPlaces

        places = McpPlaces(
            sandbox=sandbox,
            connect=connect,
            http=http,
            data=data,
            environ=environ,
            stored=lambda server, name: stored(MCP_KEYS, key_place(server, name)),
            logins=None if data is None else open_key_store(data, keys, environ),
        )
        return McpServers(registry, places, tell, is_loaded)

    return make


def _author(settings: Settings, environ: Mapping[str, str]) -> Author | None:
    if settings.git.name is not None and settings.git.email is not None:
        return Author(settings.git.name, settings.git.email)
    git = find_system_program("git")
    if git is None or "HOME" not in environ:
        return None
    name, email = (_configured(git, field, environ) for field in ("user.name", "user.email"))
    return Author(name, email) if is_name(name) and is_name(email) else None


def _configured(git: str, field: str, environ: Mapping[str, str]) -> str:
    """Return a value of the user's own git configuration; a repository's is ignored."""
    kept = {name: environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in environ}
    try:
        ran = subprocess.run(
            [git, "config", "--global", "--includes", "--get", field],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
            cwd="/",
            env=kept,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode(errors="replace").strip()


def _certificates(environ: Mapping[str, str]) -> bytes | None:
    path = environ.get("SSL_CERT_FILE")
    if not path:
        return None
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_CERTIFICATE_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= MAX_CERTIFICATE_BYTES else None


def _indexes(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the operator's package indexes, without those whose URL holds a password."""
    found: dict[str, str] = {}
    for name, variable in _INDEXES.items():
        try:
            found[variable] = checked_base_url(environ.get(name, ""))
        except ValueError:
            continue
    return found

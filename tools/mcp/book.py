"""The files of servers, for commands and clients that add, change and remove them, and accept their tools.

A server of callboard.toml is changed there, with an editor; its tools are accepted here as those of all others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ...config.files import load_own_settings, load_settings_of, place_of
from ...config.keys.store import KeyStore
from ...config.managed import remove_server, save_server
from ...config.mcp.pins import read_offers, read_pins, save_pins
from ...config.mcp.settings import MCP_KEYS, McpSettings, PinnedTool, ServerOffers, check_servers
from ...config.mcp.wire import McpOffer, McpRow, McpSource
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.text import did_you_mean
from .state import ServerState


class McpBook:
    """Reads and changes managed.toml and mcp-pins.json. Everything here blocks.

    Args:
        file: The operator's file, which need not exist.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def servers(self) -> dict[str, McpSettings]:
        """Return the servers in the files."""
        return load_settings_of(self._file).mcp

    def server(self, name: str) -> McpSettings:
        """Return a server; raise `NotFoundError`."""
        return named(self.servers(), name)

    def add(
        self, server: McpSettings, tools: Iterable[PinnedTool], offers: ServerOffers | None = None
    ) -> None:
        """Add a server with these accepted tools.

        Raises:
            ConflictError: There is one of that name.
            ValidationError: It can't be used beside the others.
            StorageError: It can't be written.
        """
        servers = self.servers()
        if server.name in servers:
            raise ConflictError(
                f"There is a server {server.name} already: `callboard mcp review {server.name}` looks at it "
                f"again, `callboard mcp remove {server.name}` removes it."
            )
        try:
            check_servers({**servers, server.name: server})
        except ValueError as error:
            raise ValidationError(f"Nothing was added: {error}.") from error
        save_pins(self._file.parent, server.name, tools, offers)
        save_server(self._file.parent, server)

    def update(self, server: McpSettings) -> None:
        """Change a server as a whole; its accepted tools stay.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It stands in callboard.toml.
            StorageError: It can't be written.
        """
        self.check_managed(server.name, "change it there")
        save_server(self._file.parent, server)

    def accept(
        self, name: str, tools: Iterable[PinnedTool], offers: ServerOffers | None = None
    ) -> None:
        """Put these in place of the accepted tools of a server; raise `NotFoundError`, `StorageError`."""
        self.server(name)
        save_pins(self._file.parent, name, tools, offers)

    def remove(self, name: str, keys: KeyStore | None) -> None:
        """Remove a server, its accepted tools and its stored secrets.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It stands in callboard.toml.
            StorageError: It can't be written.
        """
        self.check_managed(name, "remove it there")
        remove_server(self._file.parent, name)
        save_pins(self._file.parent, name, None)
        if keys is not None:
            forget_secrets(keys, name)

    def accepted(self, name: str) -> tuple[tuple[PinnedTool, ...] | None, ServerOffers]:
        """Return the tools of a server that are accepted, `None` when nobody has looked at it, and what else it has."""
        return read_pins(self._file.parent).get(name), read_offers(self._file.parent, name)

    def put_back(
        self, name: str, before: tuple[tuple[PinnedTool, ...] | None, ServerOffers]
    ) -> None:
        """Have these be the accepted ones again, after a change that could not hold."""
        save_pins(self._file.parent, name, *before)

    def own_names(self) -> frozenset[str]:
        """Return the names of the servers of callboard.toml."""
        return frozenset(load_own_settings(self._file, required=False).mcp)

    def check_managed(self, name: str, advice: str) -> None:
        """Raise `NotFoundError`, or `ConflictError` for a server of callboard.toml."""
        self.server(name)
        if name in self.own_names():
            place = place_of(self._file, "mcp", name)
            raise ConflictError(f"[mcp.{name}] stands in {place}: {advice}.")


def named(servers: Mapping[str, McpSettings], name: str) -> McpSettings:
    """Return a server; raise `NotFoundError`."""
    if name not in servers:
        close = did_you_mean(name, servers)
        raise NotFoundError(f"There is no server {name!r}.{close} `callboard mcp list` lists them.")
    return servers[name]


def row_of(
    server: McpSettings,
    source: McpSource,
    states: Mapping[str, ServerState] | None,
    *,
    sees_place: bool = True,
) -> McpRow:
    """Return a server in a list, with its state in a runtime, or in none."""
    state = ServerState(state="unknown") if states is None else states.get(server.name)
    if state is None or not server.enabled:
        state = ServerState(state="off")
    listed, pins = state.listed, {pin.original: pin for pin in server.tools}
    return McpRow(
        name=server.name,
        source=source,
        state=state.state,
        problem=state.problem,
        tier=server.tier,
        tools=tuple(pin.name for pin in server.tools),
        withheld=tuple(
            pin.name
            for pin in server.tools
            if listed is not None and listed.get(pin.original) != pin.digest
        ),
        new=tuple(name for name in listed or () if name not in pins),
        refused=dict(state.refused),
        resources=server.offers.resources,
        prompts=tuple(prompt.name for prompt in server.offers.prompts),
        withheld_prompts=withheld_prompts(server, state),
        info=state.info,
        place=server.place if sees_place else "",
    )


def chosen(
    server: McpSettings, offer: McpOffer | None, digests: Mapping[str, str], accepted_by: str
) -> tuple[PinnedTool, ...]:
    """Return the tools that somebody accepts, of what the server offered when they looked at it.

    Those that were accepted before keep by whom and when. Raises `ConflictError` for what is not as it was shown.
    """
    offered = {} if offer is None else {tool.original: tool for tool in offer.tools}
    for original, digest in digests.items():
        if original not in offered or offered[original].digest != digest:
            raise ConflictError(
                f"{server.name} does not offer {original[:80]!r} as it is accepted here: look at it again. "
                "Nothing was changed."
            )
    pins = {pin.original: pin for pin in server.tools}
    now_ms = time.time_ns() // 1_000_000
    found = []
    for original, tool in offered.items():
        pin = pins.get(original)
        if original not in digests:
            continue
        if pin is not None and pin.digest == tool.digest:
            found.append(pin)
        else:
            found.append(
                msgspec.structs.replace(tool, accepted_at_ms=now_ms, accepted_by=accepted_by)
            )
    return tuple(found)


def withheld_prompts(server: McpSettings, state: ServerState | None) -> tuple[str, ...]:
    """Return the accepted prompts whose definition is another one by now, as far as the server was asked."""
    if state is None or (listed := state.prompts) is None:
        return ()
    pins = server.offers.prompts
    return tuple(prompt.name for prompt in pins if listed.get(prompt.name) != prompt.digest)


def chosen_offers(server: McpSettings, offer: McpOffer | None, digest: str | None) -> ServerOffers:
    """Return what somebody accepts besides tools, of what the server offered when they looked at it.

    Without a digest nobody has said that they saw the prompts, so those that were accepted stay. Raises
    `ConflictError` for what is not as it was shown.
    """
    if digest is None:
        now = server.offers if offer is None else offer.offers
        return msgspec.structs.replace(server.offers, resources=now.resources)
    if offer is None or offer.offers.digest != digest:
        raise ConflictError(
            f"What {server.name} has besides tools is not as it is accepted here: look at it again. "
            "Nothing was changed."
        )
    return offer.offers


def forget_secrets(store: KeyStore, server: str, keys: Iterable[str] | None = None) -> bool:
    """Remove stored secrets of a server, these or all; return whether there were any. Blocks."""
    has_found = False
    for row in store.rows():
        owner, _, key = row.binding.origin.partition("/")
        is_its = row.binding.provider == MCP_KEYS and owner == server
        if is_its and (keys is None or key in keys):
            store.remove(MCP_KEYS, row.binding.origin)
            has_found = True
    return has_found

"""`mcp-pins.json`: the definitions of servers' tools as a person has accepted them.

The registry of tools is filled from it, so what models see never depends on a server that is away, and never on
one that has changed its mind. Everything here blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ...runtime.errors import StorageError
from ...runtime.text import UNDECODABLE
from ..private_file import locked, make_private_folder, read_private, write_private
from .settings import PINS_NAME, McpSettings, PinnedTool, ServerOffers

LOCK_NAME = "mcp-pins.lock"
MAX_PINS_BYTES = 32 * 1024 * 1024
"""64 servers with all their texts, and schemas of 3 KiB for each tool; a list beyond it is not accepted."""


class _Pin(msgspec.Struct, frozen=True, kw_only=True):
    tool: PinnedTool
    digest: str


class _PinsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = 1
    servers: dict[str, tuple[_Pin, ...]] = {}
    offers: dict[str, ServerOffers] = {}


_DECODER = msgspec.json.Decoder(_PinsFile)


def read_pins(folder: Path) -> dict[str, tuple[PinnedTool, ...]]:
    """Return the accepted tools by server.

    Raises:
        StorageError: The file can't be read or is not its owner's alone, or a definition in it is not the one
            that was accepted.
    """
    pins = _read(folder / PINS_NAME)
    return {name: tuple(pin.tool for pin in its) for name, its in pins.servers.items()}


def with_pins(servers: dict[str, McpSettings], folder: Path) -> dict[str, McpSettings]:
    """Return the servers with their accepted tools; raise as `read_pins`."""
    if not servers:
        return servers
    pins = _read(folder / PINS_NAME)
    return {
        name: msgspec.structs.replace(
            server,
            tools=tuple(pin.tool for pin in pins.servers.get(name, ())),
            offers=pins.offers.get(name, ServerOffers()),
        )
        for name, server in servers.items()
    }


def read_offers(folder: Path, server: str) -> ServerOffers:
    """Return what a server had besides tools when they were accepted; raise as `read_pins`."""
    return _read(folder / PINS_NAME).offers.get(server, ServerOffers())


def save_pins(
    folder: Path,
    server: str,
    tools: Iterable[PinnedTool] | None,
    offers: ServerOffers | None = None,
) -> None:
    """Put these in place of a server's accepted tools; `None` forgets the server. Raises `StorageError`."""
    make_private_folder(folder)
    with locked(folder / LOCK_NAME):
        pins = _read(folder / PINS_NAME)
        servers = {name: its for name, its in pins.servers.items() if name != server}
        others = {name: its for name, its in pins.offers.items() if name != server}
        if tools is not None:
            servers[server] = tuple(_Pin(tool=tool, digest=tool.digest) for tool in tools)
            others |= {} if offers is None else {server: offers}
        data = msgspec.json.encode(msgspec.structs.replace(pins, servers=servers, offers=others))
        if len(data) > MAX_PINS_BYTES:
            raise StorageError(
                f"{folder / PINS_NAME} would be larger than {MAX_PINS_BYTES} bytes: remove a server. "
                "Nothing was changed."
            )
        write_private(folder / PINS_NAME, data, replace=True)


def _read(path: Path) -> _PinsFile:
    data = read_private(path, MAX_PINS_BYTES)
    if data is None:
        return _PinsFile()
    try:
        pins = _DECODER.decode(data)
    except UNDECODABLE as error:
        raise StorageError(
            f"{path} is not a file of accepted tools ({error}). Remove it, and accept the tools again with "
            "`callboard mcp review`."
        ) from error
    if pins.version != 1:
        raise StorageError(f"{path} is of a later callboard: its version is {pins.version}.")
    for server, its in pins.servers.items():
        for pin in its:
            if pin.tool.digest != pin.digest:
                raise StorageError(
                    f"{path}: the definition of {server}'s tool {pin.tool.original!r:.80} is not the one "
                    f"that was accepted. Accept it again with `callboard mcp review {server}`."
                )
    return pins

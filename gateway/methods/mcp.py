"""`mcp/…`: servers of the Model Context Protocol, what they offer, and what is accepted of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio
from msgspec.structs import replace

from ...config.keys.store import open_key_store
from ...config.mcp import wire
from ...config.mcp.settings import McpDraft, McpSettings, references
from ...embedding.configuration import files_of
from ...embedding.runtime import data_of, host_of, wish_of
from ...runtime.errors import (
    CallboardError,
    ConflictError,
    PermissionRefused,
    ToolError,
    ValidationError,
)
from ...runtime.kernel.live_lists import ListName
from ...runtime.redaction import redact
from ...runtime.wire.fields import Role
from ...tools.mcp.book import McpBook, chosen, chosen_offers, named, row_of, withheld_prompts
from ...tools.mcp.tool import withheld
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing

methods = MethodTable()

OLDER_SANDBOX = "The daemon's [sandbox] is older than that of callboard.toml: restart the daemon, and try again."


@methods.add("mcp/list", Role.OBSERVER, is_whole=True)
async def list_servers(caller: Caller, params: Nothing) -> wire.McpRows:
    """Return the servers, sorted by name, with what they do now and which of their tools are withheld."""
    own = await _own_names(caller)
    servers = sorted(host_of(caller.runtime).settings.mcp.items())
    return wire.McpRows([_row(caller, server, own) for _, server in servers])


@methods.add("mcp/get", Role.OPERATOR, is_whole=True)
async def get_server(caller: Caller, params: wire.OneMcpServer) -> wire.McpServerState:
    """Return a server with its settings and its accepted tools, never a secret."""
    host = host_of(caller.runtime)
    server = named(host.settings.mcp, params.name)
    states = {} if host.mcp is None else host.mcp.states()
    errors = states[params.name].errors if params.name in states else ""
    return wire.McpServerState(
        row=_row(caller, server, await _own_names(caller)), settings=server, errors=redact(errors)
    )


@methods.add("mcp/look", Role.ADMIN, is_slow=True)
async def look_at_server(caller: Caller, params: wire.LookAtMcpServer) -> wire.McpOffer:
    """Return what a server offers now; it is started for that if need be, also one that is not added yet."""
    host = host_of(caller.runtime)
    if params.server is None:
        server = named(host.settings.mcp, params.name)
    else:
        server = _allowed(caller, params.server)
        if server.name != params.name or server.name in host.settings.mcp:
            raise ConflictError(
                f"{params.name}: name a server that there is, or describe a new one"
            )
    try:
        offer = await host.servers().look(server)
    except ToolError as error:
        configuration = caller.daemon.configuration
        waiting = () if configuration is None else configuration.state.waiting
        if any(name.partition(".")[0] == "sandbox" for name in waiting):
            raise ToolError(f"{error}. {OLDER_SANDBOX}") from error
        raise
    return replace(
        offer,
        digests={tool.original: tool.digest for tool in offer.tools},
        offers_digest=offer.offers.digest,
    )


@methods.add("mcp/accept", Role.ADMIN)
async def accept_tools(caller: Caller, params: wire.AcceptTools) -> wire.McpRow:
    """Accept tools of a server as `mcp/look` returned them, in place of those that were accepted before."""
    host = host_of(caller.runtime)
    server = named(host.settings.mcp, params.name)
    offer = host.servers().offer(server.name)
    pins = chosen(server, offer, params.tools, caller.name)
    offers = chosen_offers(server, offer, params.offers)
    return await _change(caller, server.name, lambda book: book.accept(server.name, pins, offers))


@methods.add("mcp/add", Role.ADMIN)
async def add_server(caller: Caller, params: wire.NewMcpServer) -> wire.McpRow:
    """Add a server with the tools that are accepted, as `mcp/look` returned them."""
    server = _allowed(caller, params.server)
    offer = host_of(caller.runtime).servers().offer(server.name)
    pins = chosen(server, offer, params.tools, caller.name)
    offers = chosen_offers(server, offer, params.offers)
    return await _change(caller, server.name, lambda book: book.add(server, pins, offers))


@methods.add("mcp/update", Role.ADMIN)
async def update_server(caller: Caller, params: wire.ChangedMcpServer) -> wire.McpRow:
    """Change a server as a whole, or whether it is used; what is accepted of it stays."""
    server = _allowed(caller, params.server)
    _check_keys_stay(caller, named(host_of(caller.runtime).settings.mcp, server.name), server)
    return await _change(caller, server.name, lambda book: book.update(server))


@methods.add("mcp/remove", Role.ADMIN)
async def remove_server(caller: Caller, params: wire.OneMcpServer) -> Nothing:
    """Remove a server, what is accepted of it, and its stored secrets."""
    runtime, files = caller.runtime, files_of(caller.daemon.configuration)
    data, wish = data_of(runtime), wish_of(runtime)
    host = host_of(runtime)
    server = named(host.settings.mcp, params.name)
    await trio.to_thread.run_sync(McpBook(files.file).check_managed, server.name, "remove it there")
    if server.url is not None:
        await host.servers().log_out(server)

    def remove() -> None:
        keys = None if data is None else open_key_store(data, wish.settings.keys, wish.environ)
        McpBook(files.file).remove(params.name, keys)

    await files.change(remove, host_of(runtime))
    host_of(runtime).lists.changed(ListName.KEYS)
    return Nothing()


@methods.add("mcp/login", Role.ADMIN, is_slow=True)
async def begin_login(caller: Caller, params: wire.OneMcpServer) -> wire.McpLogin:
    """Reach a server and return where a person logs in there, with a browser that comes back to the daemon."""
    server = named(host_of(caller.runtime).settings.mcp, params.name)
    if server.url is None:
        raise ValidationError(
            f"{server.name} is a program; only a server with a url wants a login."
        )
    return await caller.daemon.logins.begin(server)


@methods.add("mcp/finish_login", Role.ADMIN, is_slow=True)
async def finish_login(caller: Caller, params: wire.OneMcpLogin) -> Nothing:
    """Wait until the person has logged in; fail when they refused, or did nothing for ten minutes."""
    await caller.daemon.logins.finish(params.login)
    host_of(caller.runtime).lists.changed(ListName.KEYS)
    return Nothing()


@methods.add("mcp/restart", Role.ADMIN)
async def restart_server(caller: Caller, params: wire.OneMcpServer) -> wire.McpRow:
    """End a server and forget its failures; it is started again by the next call that needs it."""
    host = host_of(caller.runtime)
    server = named(host.settings.mcp, params.name)
    await host.servers().restart(server.name)
    return _row(caller, server, await _own_names(caller))


@methods.add("mcp/prompts", Role.OPERATOR, is_whole=True)
async def list_prompts(caller: Caller, params: Nothing) -> wire.McpPromptRows:
    """Return the accepted prompts of the servers that are used; no server is asked for that."""
    await trio.lowlevel.checkpoint()
    host = host_of(caller.runtime)
    states = {} if host.mcp is None else host.mcp.states()
    rows = [
        wire.McpPromptRow(
            server=name,
            name=prompt.name,
            title=prompt.title,
            description=prompt.description,
            arguments=prompt.arguments,
            problem=withheld(name) if prompt.name in gone else "",
        )
        for name, server in sorted(host.settings.mcp.items())
        if server.enabled
        for gone in [withheld_prompts(server, states.get(name))]
        for prompt in server.offers.prompts
    ]
    return wire.McpPromptRows(rows)


@methods.add("mcp/prompt", Role.OPERATOR, is_slow=True)
async def get_prompt(caller: Caller, params: wire.GetMcpPrompt) -> wire.McpPromptText:
    """Return the text that a server makes of a prompt, for a person to look at and send, with its `is_untrusted`."""
    host = host_of(caller.runtime)
    is_untrusted = named(host.settings.mcp, params.server).content != "trusted"
    text, notes = await host.servers().prompt(params.server, params.name, params.arguments)
    return wire.McpPromptText(text=text, is_untrusted=is_untrusted, notes=notes)


@methods.add("mcp/complete", Role.OPERATOR, is_slow=True)
async def complete_argument(caller: Caller, params: wire.CompleteMcpArgument) -> wire.McpValues:
    """Return what an argument of a prompt may be, as its server says; nothing of a server that does not say so."""
    servers = host_of(caller.runtime).servers()
    return wire.McpValues(
        await servers.complete(
            params.server, params.prompt, params.argument, params.value, params.arguments
        )
    )


@methods.add("mcp/use", Role.ADMIN, is_slow=True, about="session_id", is_kept=True)
async def use_servers(caller: Caller, params: wire.UseServers) -> wire.SessionServerRows:
    """Give a session servers of its own, which end with the connection; return what became of them so far.

    The same ones again go on as they are. They run at the node that owns the session.
    """
    await caller.session(params.session_id)
    await caller.check_here(params.session_id)
    servers, subscriptions = host_of(caller.runtime).session_servers, caller.subscriptions
    if params.servers:
        end = servers.use(params.session_id, params.servers)
        try:
            subscriptions.at_end(f"mcp/use {params.session_id}", end)
        except BaseException:  # it has ended meanwhile
            end()
            raise
    else:
        await servers.end(params.session_id)
    return wire.SessionServerRows(await servers.rows(params.session_id, params.wait_seconds))


async def _own_names(caller: Caller) -> frozenset[str] | None:
    """Return the names of the servers of callboard.toml; `None` without a configuration file."""
    configuration = caller.daemon.configuration
    if configuration is None or not host_of(caller.runtime).settings.mcp:
        return None
    return await trio.to_thread.run_sync(McpBook(configuration.file).own_names)


def _row(caller: Caller, server: McpSettings, own: frozenset[str] | None) -> wire.McpRow:
    mcp = host_of(caller.runtime).mcp
    source: wire.McpSource = "program"
    if own is not None:
        source = "callboard.toml" if server.name in own else "managed"
    sees_place = caller.credential.role.includes(Role.OPERATOR)
    return row_of(server, source, {} if mcp is None else mcp.states(), sees_place=sees_place)


def _allowed(caller: Caller, draft: McpDraft) -> McpSettings:
    """Return a server that this client may describe: what it may take of this machine, its own user alone says."""
    server = draft.settings()
    if caller.daemon.is_local(caller.credential):
        return server
    if server.read_only:
        raise PermissionRefused(
            "read_only is for commands of the daemon's own user: it shows files of this machine to the server."
        )
    variables = [name for kind, name in references(server) if kind == "env"]
    if variables:
        raise PermissionRefused(
            f"${{env:{variables[0]}}} is for commands of the daemon's own user: it hands a variable of its "
            "environment to the server. Store the secret, and refer to it as ${key:NAME}."
        )
    return server


def _check_keys_stay(caller: Caller, before: McpSettings, after: McpSettings) -> None:
    """Refuse that this client sends stored secrets elsewhere than they were stored for; it could never read them."""
    is_moved = (before.command, before.url) != (after.command, after.url)
    keys = [name for kind, name in references(after) if kind == "key"]
    if is_moved and keys and not caller.daemon.is_local(caller.credential):
        raise PermissionRefused(
            f"The stored key {keys[0]} of {after.name} belongs to the server as it is. Remove the server, with its "
            "keys, and add it again; the daemon's own user may change its place."
        )


async def _change(caller: Caller, name: str, edit: Callable[[McpBook], None]) -> wire.McpRow:
    """Write a change of a server, which holds when this returns; or change nothing."""
    host, files = host_of(caller.runtime), files_of(caller.daemon.configuration)
    book = McpBook(files.file)
    before = await trio.to_thread.run_sync(book.accepted, name)
    try:
        await files.change(partial(edit, book), host)
    except CallboardError:
        with trio.CancelScope(shield=True):  # one small file
            await trio.to_thread.run_sync(book.put_back, name, before)
        raise
    return _row(caller, host.settings.mcp[name], await _own_names(caller))

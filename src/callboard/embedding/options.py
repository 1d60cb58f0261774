"""Check the arguments of `open_runtime` before anything is opened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, get_origin

import msgspec
import trio

from ..actors.permissions.asking import Approver, ApproverChannel
from ..config.mcp.settings import McpSettings
from ..config.settings import Settings
from ..config.validation import checked
from ..providers.catalog.table import check_provider
from ..providers.provider import LocalModel
from ..runtime.changes.version_log import VersionStore
from ..runtime.channel import Channel
from ..runtime.definitions import Agent, InputMode, Preset, PresetWord
from ..runtime.disk.private_folder import at_home
from ..runtime.errors import NotFoundError, ValidationError
from ..runtime.messages import ApprovalAnswer, ApprovalRequest
from ..runtime.redaction import redacting_logger
from ..runtime.text import did_you_mean
from ..runtime.turn_options import check_fallbacks
from ..tools.registry import unknown_tools
from ..tools.tool import Tool

if TYPE_CHECKING:
    from ..actors.cluster.node import ClusterNode
    from ..runtime.http.client import AsyncClient, GivenHttp
    from ..runtime.turn_options import TurnOptions
    from .host import Host

log = redacting_logger(__name__)

_PATH = "the path of a folder, as a text or a Path"
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "model": (
        (str, LocalModel),
        "PROVIDER/MODEL as a text, or a model object such as ScriptedModel([…])",
    ),
    "base_url": ((str,), "a URL as a text"),
    "dialect": ((str,), "the name of a wire format"),
    "workspace": ((str, Path), _PATH),
    "data": ((str, Path), _PATH),
    "record": ((str, Path), _PATH),
    "config": ((str, Path), "the path of a callboard.toml, as a text or a Path"),
    "settings": ((Settings,), "a Settings object"),
    "environ": ((Mapping,), "a mapping of names to texts"),
}
"""The types of an option beside `None`, and their description for error messages."""


def check_options(**given: object) -> None:
    """Raise `ValidationError` for an option of a wrong type."""
    for field, value in given.items():
        kinds, wanted = _KINDS[field]
        # A class has the methods of its objects, and would pass for a model.
        if value is not None and (isinstance(value, type) or not isinstance(value, kinds)):
            raise ValidationError(f"{field} is {value!r:.80}: pass {wanted}", field=field)


def folder_of(**given: str | Path) -> Path:
    """Return the absolute path of the one option that is passed; raise `ValidationError`."""
    check_options(**given)
    [path] = given.values()
    return at_home(Path(path)).absolute()


def http_of(http: GivenHttp | None) -> AsyncClient | None:
    """Return the program's own httpx client; raise `ValidationError` for what is none."""
    if http is None:
        return None
    from ..runtime.http.transport import given_client  # here: it imports httpx

    return given_client(http)


def checked_tools(tools: object) -> list[Tool]:
    """Return the tools as a list; raise `ValidationError` for anything else."""
    advice = "is not a tool: decorate it with @callboard.tool"
    return _checked_items("tools", tools, lambda item: isinstance(item, Tool), advice)


def check_app(tools: Iterable[Tool], app: object) -> None:
    """Raise `ValidationError` for a tool whose context has an `app` of another type."""
    for tool in tools:
        wanted = tool.app_type
        kind = wanted if isinstance(wanted, type | UnionType) else get_origin(wanted)
        with suppress(TypeError):  # what `isinstance` does not take, type checkers alone judge
            if wanted is not None and not isinstance(app, kind):
                name = getattr(wanted, "__name__", str(wanted))
                raise ValidationError(
                    f"tool {tool.name} takes a ToolContext[{name}], and app is {app!r:.80}: pass a "
                    f"{name} as open_runtime(app=…)",
                    field="app",
                )


def channel_of(
    channel: Channel | None, on_approval: Approver | Literal["allow", "deny", "wait"] | None
) -> Channel | None:
    """Return the channel on which people are reached; raise `ValidationError`."""
    if channel is None:
        return _approver_channel(on_approval)
    if on_approval is not None:
        raise ValidationError(
            "channel and on_approval are given both: what on_approval does is `approve` of a "
            "channel; pass one of them",
            field="on_approval",
        )
    if not isinstance(channel, Channel):
        raise ValidationError(
            f"channel is {channel!r:.80}: pass an object of a subclass of callboard.Channel",
            field="channel",
        )
    if not isinstance(channel.name, str) or not channel.name.strip():
        raise ValidationError(f"the channel's name is {channel.name!r:.80}: give it a text")
    return channel


class _Unattended(Channel):
    """A channel without anybody: questions wait until they are answered by id."""

    is_connected = False


def _approver_channel(
    choice: Approver | Literal["allow", "deny", "wait"] | None,
) -> Channel | None:
    if choice is None:
        return None
    if callable(choice):
        return ApproverChannel(choice)
    if (given := str(choice)) not in {"allow", "deny", "wait"}:
        raise ValidationError(
            f'on_approval is {given!r}: pass a function of the request, "allow", "deny" or "wait"',
            field="on_approval",
        )
    if choice == "wait":
        return _Unattended()

    async def same_for_all(request: ApprovalRequest) -> ApprovalAnswer:
        await trio.lowlevel.checkpoint()
        return ApprovalAnswer(decision=choice, reason="on_approval says so for all calls")

    return ApproverChannel(same_for_all)


def agents_of(
    settings: Settings, own: Sequence[Agent], policy: Preset | PresetWord | None
) -> dict[str, Agent]:
    """Return all agents by name; raise `ValidationError`."""
    agents = {"general": settings.agent("general"), **settings.agents}
    advice = "is not an agent: pass callboard.Agent(…)"
    own = _checked_items("agents", own, lambda item: isinstance(item, Agent), advice)
    own = [checked(agent, f"agents[{number}]") for number, agent in enumerate(own, 1)]
    agents.update((agent.name, agent) for agent in own)
    _check_fallbacks(agents, settings)
    if policy is None:
        return agents
    try:
        preset = Preset(policy)
    except ValueError:
        known = ", ".join(Preset)
        raise ValidationError(f"there is no policy {policy!r}; there are: {known}") from None
    return {name: msgspec.structs.replace(a, policy=preset) for name, a in agents.items()}


def check_tools_of(
    own: Sequence[Agent], names: Collection[str], servers: Mapping[str, McpSettings]
) -> None:
    """Raise `ValidationError` for a misspelt tool of a program's own agent.

    One that resembles none may be that of a plugin that is not there: the log says so.
    """
    known = {*names, *(tool.name for server in servers.values() for tool in server.tools)}
    for agent in own:
        for line in unknown_tools(agent.name, agent.tools, known):
            if line.endswith("?"):
                raise ValidationError(line, field="agents")
            log.warning("%s", line)


def check_turn_options(
    host: Host,
    options: TurnOptions,
    mode: InputMode = InputMode.QUEUE,
    *,
    has_form: bool = False,
) -> None:
    """Raise now, and not when the turn begins: nobody would be there to see the error.

    With `has_form`, the schema of the answer was checked before.

    Raises:
        ValidationError: The input steers, and has no turn of its own; or there is no such tool, or no answer
            can have the form.
        NotFoundError: There is no such provider.
    """
    if mode is InputMode.STEER:
        raise ValidationError(
            "an input that steers a turn has no options: it becomes part of that turn. Leave them "
            "out, or queue the input.",
            field="options",
        )
    if options.model is not None:
        host.plan.models.target(options.model)
    check_fallbacks(options.fallbacks or ())
    for name in options.fallbacks or ():
        check_provider(host.settings, name)
    known = host.plan.registry.names()
    for name in options.tools or ():
        if name not in known:
            close = did_you_mean(name, known)
            raise ValidationError(f"there is no tool {name!r}.{close}", field="tools")
    if options.answer_schema is not None and not has_form:
        from ..tools.schema.answers import SchemaAnswer, schema_in  # here: most turns have none

        SchemaAnswer(schema_in(options.answer_schema))


def _check_fallbacks(agents: Mapping[str, Agent], settings: Settings) -> None:
    """Raise for an unknown provider now, and not when it is needed; its key may come later."""
    for agent in agents.values():
        for choice in agent.fallbacks:
            try:
                check_provider(settings, choice)
            except NotFoundError as error:
                raise NotFoundError(f"A fallback of agent {agent.name!r}: {error}") from error


def _checked_items(
    field: str, items: object, is_one: Callable[[object], bool], advice: str
) -> list[Any]:
    if not isinstance(items, Iterable):
        raise ValidationError(f"{field} is {items!r:.80}: pass a list", field=field)
    checked = list(items)
    for item in checked:
        if not is_one(item):
            name = getattr(item, "__name__", f"{item!r:.80}")
            raise ValidationError(f"{name} {advice}", field=field)
    return checked


def versions_of(data: Path | None, node: ClusterNode | None) -> VersionStore:
    """Return where file versions are kept: of sessions in a shared root of a cluster's node, in that root."""
    own = {} if node is None else node.own_folders
    if node is None or data is None or not own:
        return VersionStore(data)
    from ..runtime.changes.shared_versions import SharedVersions  # here: few nodes share a root

    versions = SharedVersions(data, own)
    node.placed = versions.place
    return versions

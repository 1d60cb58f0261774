"""Tools of other distributions, found by their entry points in the group `callboard.tools`.

An entry point names a tool, a list of tools, or a function that returns one of these. A plugin is not
even imported unless the configuration enables it. It is used as a whole or not at all; a broken plugin
is reported and disturbs nothing else.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio

from ..config.sections import PluginSettings
from ..runtime.errors import CallboardError
from .schema.function import check_definition
from .tool import Tool, checked_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "callboard.tools"

PLUGIN_SECONDS = 10.0
"""How long one import may take; the slowest libraries need a few seconds."""
MAX_PLUGIN_TOOLS = 256
"""As many as a model's answer may call."""
MAX_PROBLEM_CHARS = 500
"""How much is kept of the message of an exception that a plugin raised."""

PluginState = Literal["used", "off", "broken"]

logger = logging.getLogger(__name__)


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that was found, or that the configuration names.

    Attributes:
        name: The name of its entry point.
        state: `used`; `off` when it is not enabled; `broken` when it is, and can't be used.
        distribution: The installed distribution, or empty when there is none.
        version: Its version.
        problem: What is wrong and what to do, or empty.
        tools: The names of its tools, when it is used.

    Example:
        async with callboard.open_runtime(model="rehearsal") as runtime:
            for plugin in runtime.plugins():
                print(plugin.name, plugin.state, plugin.problem)
    """

    name: str
    state: PluginState
    distribution: str = ""
    version: str = ""
    problem: str = ""
    tools: tuple[str, ...] = ()


class LoadedPlugins(msgspec.Struct, frozen=True):
    """The plugins and their tools."""

    plugins: tuple[Plugin, ...] = ()
    tools: tuple[Tool, ...] = ()


class _Unusable(Exception):
    """Why a plugin can't be used."""


async def load_plugins(
    settings: Mapping[str, PluginSettings], taken: Collection[str]
) -> LoadedPlugins:
    """Import the enabled plugins, in the order of their names; costs nothing when there are none.

    One that hangs is left behind in its thread after `PLUGIN_SECONDS`. `taken` are the names of tools that
    exist already; each plugin adds its own.
    """
    wanted = sorted(name for name, plugin in settings.items() if plugin.enabled)
    if not wanted:
        return LoadedPlugins()
    found = await trio.to_thread.run_sync(_found)
    names = set(taken)
    plugins: list[Plugin] = []
    tools: list[Tool] = []
    for name in wanted:
        plugin, its = await _load(settings[name], found.get(name, ()), names)
        if plugin.problem:
            logger.warning("the plugin %s is not used: %s", name, plugin.problem)
        plugins.append(plugin)
        tools += its
        names.update(plugin.tools)
    return LoadedPlugins(tuple(plugins), tuple(tools))


def unused_plugins(settings: Mapping[str, PluginSettings]) -> tuple[Plugin, ...]:
    """Return the plugins that are installed and not enabled; import none of them."""
    return tuple(
        Plugin(
            name=name,
            state="off",
            distribution=", ".join(sorted({_distribution(entry)[0] for entry in entries})),
            version=_distribution(entries[0])[1] if len(entries) == 1 else "",
        )
        for name, entries in sorted(_found().items())
        if name not in settings or not settings[name].enabled
    )


def _found() -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points by name, without distributions in the current folder.

    `python -m` puts that folder on the path, and it may be a stranger's workspace.
    """
    from importlib.metadata import entry_points  # here: most runtimes have no plugins

    here = os.path.realpath(".")
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        if entry.dist is None or os.path.realpath(str(entry.dist.locate_file(""))) != here:
            found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


async def _load(
    settings: PluginSettings, entries: Collection[EntryPoint], taken: Collection[str]
) -> tuple[Plugin, list[Tool]]:
    plugin = Plugin(name=settings.name, state="broken")
    try:
        if not entries:
            raise _Unusable(
                f"no installed distribution has an entry point {settings.name} in the group {GROUP}; "
                "install it into callboard's environment, or take it out of callboard.toml"
            )
        if len(entries) > 1:
            whose = " and ".join(sorted(_distribution(entry)[0] for entry in entries))
            raise _Unusable(f"{whose} both have a plugin of this name; uninstall one of them")
        [entry] = entries
        distribution, version = _distribution(entry)
        plugin = msgspec.structs.replace(plugin, distribution=distribution, version=version)
        if settings.version not in (None, version):
            raise _Unusable(
                f"version {version} is installed, and callboard.toml enables {settings.version}; "
                f"look at what has changed, then write it under [plugins.{settings.name}]"
            )
        given: Sequence[Tool] = ()
        with trio.move_on_after(PLUGIN_SECONDS) as deadline:
            given = await trio.to_thread.run_sync(
                _tools_of, entry, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
            )
        if deadline.cancelled_caught:
            took = f"took longer than {PLUGIN_SECONDS:g} s to be imported"
            raise _Unusable(f"{entry.value} {took}")
        source = f"plugin {settings.name} of {distribution} {version}"
        tools = [_adopted(tool, settings, source) for tool in given]
        _check_names(settings, [tool.definition.name for tool in tools], taken)
    except _Unusable as unusable:
        return msgspec.structs.replace(plugin, problem=str(unusable)), []
    names = tuple(tool.definition.name for tool in tools)
    return msgspec.structs.replace(plugin, state="used", tools=names), tools


def _distribution(entry: EntryPoint) -> tuple[str, str]:
    """Return name and version, either of which its author may have left out."""
    if entry.dist is None:
        return "unknown", "unknown"
    metadata: Any = entry.dist.metadata
    return str(metadata.get("Name") or "unknown"), str(metadata.get("Version") or "unknown")


def _tools_of(entry: EntryPoint) -> list[Tool]:
    try:
        given: Any = entry.load()
        if callable(given) and not isinstance(given, Tool):
            given = given()
        # one past the bound: it may never end
        listed = [given] if isinstance(given, Tool) else list(islice(given, MAX_PLUGIN_TOOLS + 1))
    except (Exception, SystemExit, KeyboardInterrupt) as crash:
        said = f"{type(crash).__name__}: {crash}".strip(": ")[:MAX_PROBLEM_CHARS]
        raise _Unusable(f"{entry.value} can't be imported: {said}") from crash
    if not listed:
        raise _Unusable(f"{entry.value} has no tools")
    if len(listed) > MAX_PLUGIN_TOOLS:
        raise _Unusable(f"{entry.value} has more than {MAX_PLUGIN_TOOLS} tools")
    for item in listed:
        if not isinstance(item, Tool):
            raise _Unusable(
                f"{entry.value} gives {item!r:.80}, which is not a tool: it should give what "
                "@callboard.tool makes, or a list of that"
            )
    return listed


def _adopted(tool: Tool, settings: PluginSettings, source: str) -> Tool:
    """Return the tool with the operator's tier and with its source.

    Remembered answers are bound to the source, so that they end with an update of the plugin.
    """
    try:
        definition = tool.definition
        tier = settings.tier_of(checked_name(definition.name))
        check_definition(definition)
        adopted = copy.copy(tool)
        adopted.definition = msgspec.structs.replace(definition, tier=tier, source=source)
    except (CallboardError, AttributeError, TypeError) as error:
        raise _Unusable(f"one of its tools can't be used: {error}") from error
    return adopted


def _check_names(settings: PluginSettings, names: list[str], taken: Collection[str]) -> None:
    for at, name in enumerate(names):
        if name in taken or name in names[:at]:
            raise _Unusable(f"there is a tool {name} already; it needs another name")
    for name in settings.tiers:
        if name not in names:
            raise _Unusable(
                f"plugins.{settings.name}.tiers names {name}, which it does not have; it has: "
                f"{', '.join(names)}"
            )

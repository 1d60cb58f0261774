"""Rules from TOML: `[[rules]]`, and those of one agent or one channel.

A rule in `[[agents.NAME.rules]]` is a rule with `agent = "NAME"`, and one in
`[[channels.NAME.rules]]` a rule with `channel = "NAME"`. Rules are counted from 1, as people do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..toml_reader import KeyPath, TomlReader
from .match import CompiledRule
from .rules import Condition, PlacedRule, Rule


def read_rules(reader: TomlReader, document: Mapping[str, Any]) -> tuple[PlacedRule, ...]:
    """Return all rules of a configuration, each checked with its examples.

    Raises:
        ValidationError: A rule or one of its examples is wrong; the error names it, with its line.
    """
    found = [_rule(reader, table, path) for path, table in _tables(reader, document, ())]
    _check_channels(reader, document.get("channels", {}))
    for key, field in (("agents", "agent"), ("channels", "channel")):
        owners = document.get(key)
        for name, owner in owners.items() if isinstance(owners, dict) else ():
            if isinstance(owner, dict):  # another shape of it is complained about elsewhere
                for path, table in _tables(reader, owner, (key, name)):
                    if field in table:
                        problem = f"the table says it already: the rule is one of {name!r}"
                        raise reader.error((*path, field), problem)
                    found.append(_rule(reader, {**table, field: name}, path))
    return tuple(found)


def _check_channels(reader: TomlReader, channels: object) -> None:
    """Raise `ValidationError` when a channel's table holds anything but rules."""
    header = "[[channels.NAME.rules]]"
    if not isinstance(channels, dict):
        raise reader.error(("channels",), f"expected tables that begin with {header}")
    for name, channel in channels.items():
        if not isinstance(channel, dict):
            raise reader.error(("channels", name), f"expected tables that begin with {header}")
        if not name:
            raise reader.error(("channels", name), "a name is empty")
        for key in channel.keys() - {"rules"}:
            problem = f"a channel has no such setting; it has rules, written as {header}"
            raise reader.error(("channels", name, key), problem)


def without_rules(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document without channels and without the rules of agents."""
    document = {key: value for key, value in document.items() if key != "channels"}
    agents = document.get("agents")
    if not isinstance(agents, dict):
        return document
    bare = {
        name: {key: value for key, value in table.items() if key != "rules"}
        if isinstance(table, dict)
        else table
        for name, table in agents.items()
    }
    return {**document, "agents": bare}


def _tables(
    reader: TomlReader, document: Mapping[str, Any], outer: KeyPath
) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    tables = document.get("rules", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        header = ".".join((*outer, "rules"))
        raise reader.error((*outer, "rules"), f"expected tables that begin with [[{header}]]")
    for number, table in enumerate(tables, 1):
        yield (*outer, "rules", f"[{number}]"), table


def _rule(reader: TomlReader, table: dict[str, Any], path: KeyPath) -> PlacedRule:
    conditions = table.get("arguments", {})
    if not isinstance(conditions, dict):
        raise reader.error((*path, "arguments"), "expected a table like {path = {path = 'a/**'}}")
    arguments = {}
    for name, condition in conditions.items():
        where = (*path, "arguments", name)
        if not isinstance(condition, dict):
            problem = f"expected a table like {{is = {condition!r}}}, with path, argv, host or is"
            raise reader.error(where, problem)
        arguments[name] = reader.convert(condition, Condition, where)
    rule = reader.convert({**table, "arguments": {}}, Rule, path)
    placed = PlacedRule(msgspec.structs.replace(rule, arguments=arguments), reader.place(path))
    try:
        CompiledRule(placed)
    except ValueError as error:
        example, _, problem = str(error).partition(": ")
        field, _, number = example.partition("[")
        raise reader.error((*path, field, f"[{number}"), problem) from error
    return placed

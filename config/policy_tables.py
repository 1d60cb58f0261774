"""From TOML tables to rules: `[[rules]]`, and `[[agents.NAME.rules]]` for one agent.

A rule of an agent's table is a rule with `agent = "NAME"`; it is written there to stand with the
agent. Rules are counted from 1, as people do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from ..runtime.errors import ValidationError
from .policy_match import CompiledRule
from .policy_rules import Condition, PlacedRule, Rule

_Any = TypeVar("_Any")

Place = tuple[str, ...]


class TableReader(Protocol):
    """Turns one table into a struct, and knows where it stands."""

    def convert(self, value: Any, kind: type[_Any], path: Place) -> _Any:
        """The struct; raises `ValidationError`."""
        ...

    def error(self, path: Place, problem: str) -> ValidationError:
        """The error for what stands at `path`."""
        ...

    def place(self, path: Place) -> str:
        """Where it stands, for people: `rules[3] (callboard.toml, line 12)`."""
        ...


def read_rules(reader: TableReader, document: Mapping[str, Any]) -> tuple[PlacedRule, ...]:
    """All rules of a configuration, each checked with its examples.

    Raises:
        ValidationError: A rule or an example of one is wrong; names it, with its line.
    """
    found = [_rule(reader, table, path) for path, table in _tables(reader, document, ())]
    agents = document.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        if isinstance(agent, dict):  # another shape of it is complained about with the agents
            for path, table in _tables(reader, agent, ("agents", name)):
                if "agent" in table:
                    problem = f"the table says it already: the rule is one of {name!r}"
                    raise reader.error((*path, "agent"), problem)
                found.append(_rule(reader, {**table, "agent": name}, path))
    return tuple(found)


def without_rules(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document whose agents are agents alone."""
    agents = document.get("agents")
    if not isinstance(agents, dict):
        return dict(document)
    bare = {
        name: {key: value for key, value in table.items() if key != "rules"}
        if isinstance(table, dict)
        else table
        for name, table in agents.items()
    }
    return {**document, "agents": bare}


def _tables(
    reader: TableReader, document: Mapping[str, Any], outer: Place
) -> Iterator[tuple[Place, dict[str, Any]]]:
    tables = document.get("rules", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        header = ".".join((*outer, "rules"))
        raise reader.error((*outer, "rules"), f"expected tables that begin with [[{header}]]")
    for number, table in enumerate(tables, 1):
        yield (*outer, "rules", f"[{number}]"), table


def _rule(reader: TableReader, table: dict[str, Any], path: Place) -> PlacedRule:
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

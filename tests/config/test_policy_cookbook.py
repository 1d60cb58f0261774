"""The recipes of docs/permissions.md do what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from callboard.cli.policy_lint import findings_about
from callboard.config.files import parse_settings
from callboard.config.policy import PolicyBook, PolicyQuestion
from callboard.config.settings import Settings
from callboard.runtime.definitions import SessionKind, Tier, ToolDefinition
from callboard.tools.registry import builtin_tools

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "permissions.md"
RECIPE = re.compile(
    r"^### (.+?)\n(.*?)```toml\n(.*?)```\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL
)
ROW = re.compile(
    r"^\| `(\w+) (\{.*\})`(?: of agent (\w+))?(?: on channel (\w+))?(?: in a (\w+))?"
    r" \| (\w+) \| (\w+) \|$"
)

LATER = (
    ToolDefinition(name="shell", description="", parameters={}, tier=Tier.SYSTEM),
    ToolDefinition(name="git_push", description="", parameters={}, tier=Tier.ELEVATED),
)
"""Tools that recipes are about and that a program brings."""

DEFINITIONS = {d.name: d for d in (*(tool.definition for tool in builtin_tools()), *LATER)}
COOKBOOK = DOCUMENT.read_text(encoding="utf-8").partition("## Cookbook")[2]
RECIPES = {title: (toml, rows) for title, _, toml, rows in RECIPE.findall(COOKBOOK)}


def test_every_recipe_is_found() -> None:
    assert len(RECIPES) == COOKBOOK.count("\n### ") == COOKBOOK.count("```toml") > 8


def verdict(settings: Settings, row: re.Match[str]) -> str:
    tool, text, agent, channel, kind = row.groups()[:5]
    definition = DEFINITIONS.get(tool)
    # As of a call that its tool wants a person for: an overwrite, a deletion, a POST.
    asks = definition is not None and definition.approval != "never"
    is_harmless = tool == "http_request" and '"POST"' not in text
    question = PolicyQuestion(
        tool=tool,
        definition=definition,
        tier=None if definition is None else definition.tier,
        arguments=text,
        approval_reason="it asks" if asks and not is_harmless else None,
    )
    policy = PolicyBook(settings.rules).policy(
        settings.agent(agent or "general"), kind=SessionKind(kind or "main"), channel=channel
    )
    return str(policy.ruling(question).verdict)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_does_what_stands_below_it(title: str) -> None:
    toml, text = RECIPES[title]
    settings = parse_settings(toml, DOCUMENT)
    without = msgspec.structs.replace(settings, rules=())
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    assert lines
    for line in lines:
        row = ROW.match(line)
        assert row is not None, line
        said = verdict(without, row), verdict(settings, row)
        assert said == (row[6], row[7]), line
    assert any(row[6] != row[7] for row in map(ROW.match, lines) if row)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_has_no_findings(title: str) -> None:
    settings = parse_settings(RECIPES[title][0], DOCUMENT)
    assert findings_about(settings, DEFINITIONS) == ()

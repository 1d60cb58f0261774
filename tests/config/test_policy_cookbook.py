"""The recipes of docs/permissions.md do what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from callboard.cli.policy.check import answer_about, show_verdict
from callboard.cli.policy.lint import findings_about
from callboard.config.files import parse_settings
from callboard.config.settings import NetworkSettings, Settings
from callboard.embedding.policy_check import CheckedCall
from callboard.runtime.definitions import Tier, ToolDefinition
from callboard.tools.builtin import builtin_tools

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "permissions.md"
RECIPE = re.compile(
    r"^### (.+?)\n(.*?)```toml\n(.*?)```\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL
)
ROW = re.compile(
    r"^\| `(\w+) (\{.*\})`(?: of agent (\w+))?(?: on channel (\w+))?(?: in a (\w+))?"
    r" \| (\w+) \| (\w+) \|$"
)

OWN = (ToolDefinition(name="publish", description="", parameters={}, tier=Tier.ELEVATED),)
"""What a program brings; `policy check` does not know it."""

BUILT_IN = {tool.name for tool in builtin_tools()}
DEFINITIONS = {d.name: d for d in (*(tool.definition for tool in builtin_tools()), *OWN)}
SAMPLE = re.compile(r"^\$ callboard policy check (\w+) '(.*)'\n(.*?)```", re.MULTILINE | re.DOTALL)
COOKBOOK = DOCUMENT.read_text(encoding="utf-8").partition("## Cookbook")[2]
RECIPES = {title: (toml, rows) for title, _, toml, rows in RECIPE.findall(COOKBOOK)}


def test_every_recipe_is_found() -> None:
    assert len(RECIPES) == COOKBOOK.count("\n### ") == COOKBOOK.count("```toml") > 8


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the page names."""
    folder = tmp_path_factory.mktemp("work")
    for name in COOKBOOK.split("```")[1].split():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x\n")
    return folder


def verdict(settings: Settings, row: re.Match[str], workspace: Path) -> str:
    """What the command says."""
    tool, text, agent, channel, kind = row.groups()[:5]
    call = CheckedCall(
        tool=tool,
        arguments=text,
        agent=agent or "general",
        channel=channel,
        kind=kind or "main",
        workspace=workspace,
        tier=None if tool in BUILT_IN else Tier.ELEVATED,
    )
    return str(answer_about(call, settings).verdict)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_does_what_stands_below_it(title: str, workspace: Path) -> None:
    toml, text = RECIPES[title]
    settings = parse_settings(toml, DOCUMENT)
    without = msgspec.structs.replace(settings, rules=(), network=NetworkSettings())
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    assert lines
    for line in lines:
        row = ROW.match(line)
        assert row is not None, line
        said = verdict(without, row, workspace), verdict(settings, row, workspace)
        assert said == (row[6], row[7]), line
    assert any(row[6] != row[7] for row in map(ROW.match, lines) if row)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_has_no_findings(title: str) -> None:
    settings = parse_settings(RECIPES[title][0], DOCUMENT)
    assert findings_about(settings, DEFINITIONS) == ()


def test_the_sample_is_what_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ((tool, arguments, printed),) = SAMPLE.findall(DOCUMENT.read_text(encoding="utf-8"))
    (tmp_path / "notes.md").write_text("old")
    call = CheckedCall(tool=tool, arguments=arguments, workspace=tmp_path)
    assert show_verdict(call, Settings(), json=False) == 0
    assert capsys.readouterr().out == printed

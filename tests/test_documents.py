"""What the documents list is what there is."""

from __future__ import annotations

import re
import runpy
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import callboard
from callboard.config.files import parse_settings
from callboard.config.settings import Limits, Settings
from callboard.providers.catalog.connection_test import ConnectionFault
from callboard.providers.catalog.known import KNOWN
from callboard.runtime.definitions import CallStatus, ErrorType
from callboard.runtime.events import DurableEvent, LiveEvent
from callboard.runtime.stream import AnyStreamEvent
from callboard.tools.builtin import builtin_tools
from callboard.tools.tool import Tool

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
EVENTS = [*get_args(DurableEvent), *get_args(LiveEvent), *get_args(AnyStreamEvent)]


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_the_protocol_lists_each_event_with_its_fields(event: type[msgspec.Struct]) -> None:
    tag = event.__struct_config__.tag
    rows = [line.split("|") for line in text_of("docs/protocol.md").splitlines()]
    listed = [row[2] for row in rows if len(row) > 2 and f"`{tag}`" in row[1]]
    assert len(listed) == 1
    fields = re.findall(r"`(\w+)`", listed[0])
    assert fields == [field.name for field in msgspec.structs.fields(event)]


def test_the_documents_name_every_state_and_error_of_a_call() -> None:
    for status in CallStatus:
        assert f"`{status}`" in text_of("docs/protocol.md")
    for error in ErrorType:
        assert f"`{error}`" in text_of("docs/tools.md")


@pytest.mark.parametrize(
    "tool", [each.load() for each in builtin_tools()], ids=lambda tool: tool.definition.name
)
def test_every_built_in_tool_is_listed_as_it_is(tool: Tool) -> None:
    its = tool.definition
    deadline = "none" if tool.waits else f"{its.timeout_seconds:g} s"
    row = f"| `{its.name}` | {its.tier} | {deadline} | {its.effect} | "
    listed = next(
        (line for line in text_of("docs/tools.md").splitlines() if line.startswith(row)), ""
    )
    required = its.parameters.get("required", [])
    for name in its.parameters["properties"]:
        assert f"`{name}`" in listed if name in required else f"`{name}?`" in listed


def test_the_reference_of_the_tools_is_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "tool-reference"))
    text = text_of("docs/tools.md")
    assert script["written"](text) == text, "run scripts/tool-reference"
    assert script["main"](["--check"]) == 0
    stale = text.replace("### `read_file`", "### `read_a_file`")
    assert stale != text
    assert script["written"](stale) == text
    assert script["main"](["--write"]) == 2
    assert "--check" in capsys.readouterr().err


def test_the_tests_that_hold_the_rules_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text_of("docs/architecture.md"))
    assert named
    for file, test in named:
        assert f"def {test}(" in text_of(file), f"{file} has no {test}"


def test_every_limit_is_listed_with_its_default() -> None:
    for field in msgspec.structs.fields(Limits):
        default: Any = field.default
        assert f"| `{field.name}` | {int(default)} |" in text_of("docs/operations.md")


def test_every_known_provider_is_listed() -> None:
    for known in KNOWN.values():
        row = f"| `{known.name}` | `{known.base_url}` | `{known.dialect}` |"
        [line] = [each for each in text_of("docs/providers.md").splitlines() if row in each]
        for shown in (known.key_env, known.other_key_env, known.model):
            assert shown is None or f"`{shown}`" in line


def test_every_fault_of_a_provider_is_listed() -> None:
    for fault in ConnectionFault:
        assert f"| `{fault}` |" in text_of("docs/providers.md")


def test_the_reference_has_every_public_name_event_and_section_of_the_settings() -> None:
    """`make docs` fails for a name that there is not; this, for one that is on no page."""
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").iterdir())
    documented = set(re.findall(r"^\.\. auto\w+:: (callboard\.\S+)$", pages, re.MULTILINE))
    names = {name for names in vars(callboard)["_MODULES"].values() for name in names.split()}
    assert {f"callboard.{name}" for name in names} - documented == set()
    shown = {name.rpartition(".")[2] for name in documented}
    assert {event.__name__ for event in EVENTS} - {"StreamBatch"} - shown == set()
    sections = {
        kind.__name__
        for field in msgspec.structs.fields(Settings)
        if isinstance(kind := field.type, type) and issubclass(kind, msgspec.Struct)
    }
    assert len(sections) > 5
    assert sections - shown == set()


def test_links_lead_to_files_that_exist() -> None:
    lost = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in DOCUMENTS
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8"))
        if not target.startswith("https://") and not (document.parent / target).exists()
    ]
    assert lost == []


def test_the_walk_through_a_prompt_names_functions_that_there_are() -> None:
    steps = re.findall(
        r"^\| (\d+|↩) \| `([\w/]+\.py)`(.*?) \|", text_of("docs/architecture.md"), re.MULTILINE
    )
    for _, module, names in steps:
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", names):
            assert re.search(rf"\b{name}\b", text_of(module)), (module, name)
    numbers = [number for number, _, _ in steps]
    assert numbers.count("↩") <= 5
    assert len({module for _, module, _ in steps}) == max(map(int, set(numbers) - {"↩"})) <= 25


def test_configuration_in_a_document_is_accepted() -> None:
    blocks = blocks_of("toml")
    assert len(blocks) > 20
    for document, block in blocks:
        parse_settings(block, document)
        assert tomllib.loads(block), document


def test_python_in_a_document_is_valid() -> None:
    blocks = blocks_of("python")
    assert len(blocks) > 20
    for document, block in blocks:
        compile(block, str(document), "exec")


def blocks_of(language: str) -> list[tuple[Path, str]]:
    """What the documents quote in this language, each with its document."""
    return [
        (document, block)
        for document in DOCUMENTS
        for block in re.findall(
            rf"```{language}\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL
        )
    ]


def test_the_methods_of_the_protocol_are_listed_as_they_are() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "protocol-reference"))
    text = text_of("docs/protocol.md")
    assert script["written"](text) == text, "run scripts/protocol-reference"
    assert script["main"](["--check"]) == 0
    stale = text.replace("| `session/prompt` |", "| `session/ask` |")
    assert stale != text
    assert script["written"](stale) == text

"""Each file that callboard keeps has its place, on the node or in the database, in decision 32: a new one must be given one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from callboard.gateway.methods.all import all_methods

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "decisions" / "0032-what-stays-on-the-node.md"
SOURCES = ("runtime", "actors", "config", "cli", "gateway", "tools", "providers", "src/callboard")
_KEEPS = re.compile(r"(?:^|_)(?:NAME|FOLDER|FILE|MARKER|DATABASE|PREFIX)$")
"""Constants that name a file or a folder are called so."""
_NAME = re.compile(r"[A-Za-z.][A-Za-z0-9_.-]+")

ELSEWHERE = {
    "names of other things": {
        *("callboard", "callboard-key", "callboard-database", "sandbox", "whsec_", "cb_", "local", "memories", "session-"),
        *("openai_responses", "openai_chat", "anthropic", "gemini", "answer", "callboard-sandbox-"),
    },
    "in workspaces and roots": {".callboard", ".callboard-", "AGENTS.md", "SKILL.md", "skills"},
    "in a temporary folder": {"callboard.edit-"},
    "only while a store is replaced": {"callboard.restored.db", "callboard.damaged.db"},
}  # fmt: skip
"""Constants that are called so, and name nothing that stays in a data folder or beside the configuration."""


def named() -> dict[str, str]:
    """Return what such constants say, each with the module that has it."""
    found: dict[str, str] = {}
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            if "node_modules" in path.parts:
                continue
            for line in ast.parse(path.read_text(encoding="utf-8")).body:
                match line:
                    case ast.Assign([ast.Name(name)], ast.Constant(str(value))) if _KEEPS.search(
                        name
                    ) and _NAME.fullmatch(value):
                        found[value] = str(path.relative_to(ROOT))
    return found


def test_every_name_of_a_file_is_found() -> None:
    """The control: one of each kind."""
    known = {"mcp-tasks.json", "backups", "callboard.store", "callboard.aside-", "root.json", "workspaces-in-use"}  # fmt: skip
    assert known <= named().keys()


def test_every_file_beside_the_store_has_a_place() -> None:
    placed = set(re.findall(r"`([^`]+)`", PAGE.read_text(encoding="utf-8")))
    elsewhere = {name for names in ELSEWHERE.values() for name in names}
    missing = {
        name: module
        for name, module in named().items()
        if name not in placed | elsewhere and f"{name}/" not in placed and f"{name}…" not in placed
    }
    assert missing == {}, f"say in {PAGE.name} where each is kept, and why"
    assert elsewhere - named().keys() == set()


def test_documents_agree_on_which_keys_are_on_record() -> None:
    recorded = {method.name for method in all_methods() if method.recall is not None}
    for page, begin in (("protocol.md", "**Requests that come twice.**"), ("scale.md", "**Idempotency keys**")):  # fmt: skip
        text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(begin)[2]
        said = (
            text.partition(" stored ")[0] if page == "protocol.md" else text.partition(" rows")[0]
        )
        assert set(re.findall(r"`(session/\w+)`", said)) == recorded, page

"""Help pages: commands in groups, names and what they do in two columns, each text wrapped once."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from cyclopts import App, Group
from cyclopts.help import format_usage
from cyclopts.help.formatters.plain import PlainFormatter

MAX_WIDTH = 100
"""Columns of a page; longer lines are hard to read."""
MAX_LABEL = 26
"""A longer label has a line of its own, so that the texts keep their room."""

GROUPS = {
    "Talk": ("chat", "run", "attach", "acp", "record"),
    "Sessions": ("sessions", "show", "session", "undo", "usage", "memory", "replay"),
    "Permissions": ("approvals", "approve", "deny", "grants", "policy"),
    "Models and tools": ("agents", "models", "providers", "keys", "tools", "tool", "skills", "mcp"),
    "Daemon": (
        "serve",
        "console",
        "status",
        "stop",
        "logs",
        "service",
        "cluster",
        "schedule",
        "token",
        "hooks",
        "protocol",
    ),
    "Upkeep": (
        "doctor",
        "settings",
        "backup",
        "restore",
        "store",
        "compact",
        "upgrade",
        "completion",
    ),
}
"""The commands in the order of the list, the most used first."""

_TITLES = {title: Group(title, sort_key=number) for number, title in enumerate(GROUPS)}
PLACES = {
    name: {"group": _TITLES[title], "sort_key": place}
    for title, names in GROUPS.items()
    for place, name in enumerate(names)
}
"""How each command is added to the parser to stand in its place."""
OPTIONS = Group("Options", sort_key=len(GROUPS))


class _Folder(textwrap.TextWrapper):
    """Folds a text at spaces; what is longer than a row behind its commas, as in `tokens=1,cost=2`."""

    def _split(self, text: str) -> list[str]:
        chunks = super()._split(text)
        parts = (re.split(r"(?<=,)", each) if len(each) > self.width else [each] for each in chunks)
        return [part for each in parts for part in each]


def name_arguments(app: App, tokens: Sequence[str]) -> None:
    """Name in the usage of a page what may be left out: `[PROMPT]`, where cyclopts says `[ARGS]`."""
    words = [token for token in tokens if not token.startswith("-")]  # --help is a command, too
    chain, apps, _ = app.parse_commands(words)
    page, names = apps[-1], []
    usage = format_usage(app, chain, execution_path=apps).plain.strip()
    if page.default_command is not None:
        for each in page.assemble_argument_collection(parse_docstring=False):
            if each.index is not None and not each.required:
                more = "..." if each.field_info.kind is each.field_info.VAR_POSITIONAL else ""
                names.append(f"[{each.name}{more}]")
        usage = re.sub(r"\[ARGS(\.\.\.)?\]", " ".join(names), usage)
    if page.default_command is not None or page is app:
        usage = usage.replace(" COMMAND", " [COMMAND]")
    page.usage = usage


class HelpPage(PlainFormatter):
    """Formats the pages that cyclopts makes of commands and parameters."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Print one group of commands or parameters."""
        rows = [(_label(entry), _text(entry, console)) for entry in panel.entries]
        if not rows:
            return
        width = min(console.width, MAX_WIDTH)
        column = 2 + min(max(len(label) for label, _ in rows), MAX_LABEL) + 2
        title = {"Parameters": "Options"}.get(str(panel.title), panel.title)
        lines = [f"{title}:"] if title else []
        for label, text in rows:
            folder = _Folder(max(width - column, 20), break_on_hyphens=False)
            folded = folder.wrap(text) or [""]
            if len(label) > column - 4:
                lines.append(f"  {label}")
            else:
                lines.append(f"  {label:{column - 2}}{folded.pop(0)}")
            lines += [" " * column + line for line in folded]
        self._print_plain(console, "\n".join(line.rstrip() for line in lines))
        console.print()

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        """Print what the command does."""
        paragraphs = _plain(description, console).split("\n\n")
        width = min(console.width, MAX_WIDTH)
        texts = [
            textwrap.fill(" ".join(each.split()), width) for each in paragraphs if each.strip()
        ]
        if texts:
            self._print_plain(console, "\n\n".join(texts) + "\n")


def _label(entry: Any) -> str:
    return ", ".join(entry.display_labels_with_metavar)


def _text(entry: Any, console: Any) -> str:
    parts = [" ".join(_plain(entry.description, console).split())]
    if entry.choices:
        parts.append(f"[{', '.join(entry.choices)}]")
    if entry.default not in {None, "False", "()", '""', "."}:
        parts.append(f"[default: {entry.default}]")
    return " ".join(part for part in parts if part)


def _plain(renderable: Any, console: Any) -> str:
    """Return text without styles; wide, so that nothing is folded here."""
    from rich.console import Console

    plain = getattr(renderable, "plain", None)
    if plain is not None or renderable is None:
        return str(plain or "")
    wide = Console(width=10_000, no_color=True, highlight=False, markup=False, emoji=False)
    with wide.capture() as captured:
        wide.print(renderable, end="")
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))

"""What a person sees of a server's tools, and what they say about them."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Collection

import msgspec

from ...config.mcp.settings import McpSettings, PinnedTool, ServerOffers
from ...config.mcp.wire import McpOffer
from ...tools.mcp.definition import LIST_RESOURCES, READ_RESOURCE, shown
from ..terminal.complaint import complain
from ..terminal.escaping import exact, safe_line, safe_text
from ..terminal.style import counted
from .prompts import usage_of

INDENT = "    "


class ToolChanges(msgspec.Struct, frozen=True, kw_only=True):
    """How the tools that a server offers differ from those that were accepted.

    Attributes:
        same, new: Tools as they are.
        changed: Pairs of what was accepted and what is offered.
        gone: Tools that were accepted and are not offered.
        refused: Why others can't be accepted, by the server's names.
    """

    same: tuple[PinnedTool, ...] = ()
    new: tuple[PinnedTool, ...] = ()
    changed: tuple[tuple[PinnedTool, PinnedTool], ...] = ()
    gone: tuple[PinnedTool, ...] = ()
    refused: dict[str, str] = {}

    @property
    def is_any(self) -> bool:
        """Whether there is anything to decide about."""
        return bool(self.new or self.changed or self.gone)


def changes_of(server: McpSettings, listing: McpOffer) -> ToolChanges:
    """Return how a list differs from the tools that were accepted."""
    pins = {pin.original: pin for pin in server.tools}
    listed = {tool.original for tool in listing.tools}
    same, new, changed = [], [], []
    for tool in listing.tools:
        pin = pins.get(tool.original)
        if pin is None:
            new.append(tool)
        elif pin.digest == tool.digest:
            same.append(pin)
        else:
            changed.append((pin, tool))
    return ToolChanges(
        same=tuple(same),
        new=tuple(new),
        changed=tuple(changed),
        gone=tuple(pin for pin in server.tools if pin.original not in listed),
        refused=listing.refused,
    )


def show_changes(server: McpSettings, changes: ToolChanges) -> None:
    """Print what is new, what has changed and how, and what is gone."""
    for tool in changes.new:
        show_tool(server, tool, "new: ")
    for before, now in changes.changed:
        print(f"changed: {now.name} ({server.tier_of(now)})")
        for line in diff_of(before, now):
            print(f"{INDENT}{line}")
    for tool in changes.gone:
        print(f"gone: {tool.name}")
    for name, why in changes.refused.items():
        print(f"can't be used: {safe_line(shown(name))}: {safe_line(why)}")
    if changes.same:
        print(f"unchanged: {counted(len(changes.same), 'tool')}")


def show_tool(server: McpSettings, tool: PinnedTool, mark: str = "") -> None:
    """Print a tool as its server defines it: its text and its arguments, whole."""
    print(f"{mark}{tool.name} ({server.tier_of(tool)})")
    for line in _indented(tool.title, tool.description):
        print(line)
    properties = tool.parameters.get("properties")
    if isinstance(properties, dict) and properties:
        required = tool.parameters.get("required") or ()
        for name, schema in properties.items():
            its = schema if isinstance(schema, dict) else {}
            needed = "" if name in required else ", optional"
            said = its.get("description")
            words = f": {safe_line(str(said))}" if said else ""
            print(
                f"{INDENT}- {safe_line(str(name))} ({safe_line(str(its.get('type', 'any')))}{needed}){words}"
            )
    if tool.annotations:
        hints = ", ".join(f"{name} {value}" for name, value in sorted(tool.annotations.items()))
        if server.annotations == "trusted":
            print(f"{INDENT}its server says, and is trusted with it: {safe_line(hints)}")
        else:
            proposal = "" if tool.hinted is None else f" (--annotations trusted: {tool.hinted[0]})"
            print(
                f"{INDENT}its server says, and nothing follows from it: {safe_line(hints)}{proposal}"
            )


def show_offers(server: McpSettings, offers: ServerOffers, withheld: Collection[str] = ()) -> None:
    """Print what a server has besides tools, and how its prompts differ from those that were accepted."""
    if offers.resources:
        print(f"resources: models list and read them with {LIST_RESOURCES} and {READ_RESOURCE}")
    if offers.instructions:
        used = "models get them" if server.instructions else "models get them with --instructions"
        print(f"instructions of the server, in its words ({used}):")
        print("\n".join(_indented(offers.instructions)))
    pins = {prompt.name: prompt for prompt in server.offers.prompts}
    for prompt in offers.prompts:
        pin = pins.pop(prompt.name, None)
        mark = "withheld: " if prompt.name in withheld else ""
        if pin != prompt:
            mark = "new: " if pin is None else "changed: "
        print(f"{mark}prompt {usage_of(f'{server.name}:{prompt.name}', prompt.arguments)}")
        for line in _indented(prompt.title, prompt.description):
            print(line)
        for argument in prompt.arguments:
            if argument.description:
                print(f"{INDENT}- {safe_line(argument.name)}: {safe_line(argument.description)}")
    for name in pins:
        print(f"gone: prompt /{server.name}:{safe_line(name)}")


def diff_of(before: PinnedTool, now: PinnedTool) -> list[str]:
    """Return the lines in which two definitions differ, with escapes for what nobody would see."""
    old, new = (
        msgspec.json.format(msgspec.json.encode(tool.definition, order="sorted"), indent=2)
        .decode()
        .splitlines()
        for tool in (before, now)
    )
    found = list(difflib.unified_diff(old, new, "accepted", "offered", lineterm="", n=2))
    return [exact(line) for line in found]


def agrees(question: str, *, is_yes: bool) -> bool:
    """Ask at the terminal; without one only `--yes` is a yes."""
    if is_yes:
        return True
    if not (os.isatty(0) and os.isatty(1)):
        complain("Nothing was accepted: this is not a terminal. --yes accepts what was shown.")
        return False
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _indented(*texts: str) -> list[str]:
    lines = "\n".join(filter(None, texts)).strip().splitlines()
    return [f"{INDENT}{safe_text(line)}" for line in lines]

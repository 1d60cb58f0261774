"""`callboard tools`."""

from __future__ import annotations

import sys
import textwrap

from ..tools.registry import builtin_tools
from .exit_codes import ANSWERED
from .json_lines import json_line

_WIDTH = 100
"""Descriptions are wrapped here; a terminal that is narrower wraps them again."""


def show_tools(*, json: bool) -> int:
    """Lists what is built in: name, tier, deadline and description of each."""
    tools = builtin_tools()
    widest = max(len(tool.definition.name) for tool in tools)
    for tool in tools:
        definition = tool.definition
        if json:
            sys.stdout.write(json_line(definition))
            continue
        deadline = "none" if tool.waits else f"{definition.timeout_seconds:g} s"
        head = f"{definition.name:<{widest}}  {definition.tier:<9}  {deadline:>5}  "
        indent = " " * len(head)
        sys.stdout.write(
            textwrap.fill(
                definition.description, _WIDTH, initial_indent=head, subsequent_indent=indent
            )
            + "\n"
        )
    return ANSWERED

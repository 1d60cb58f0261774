"""What is written to a program that runs in the background, judged as the command that it may be.

Behind the input of a program there may be a shell. So a rule about `shell` is one about what the tool
`process` writes, too: of the two verdicts the stricter holds.
"""

from __future__ import annotations

import msgspec

from .policy_match import CallArguments

PROCESS = "process"
SHELL = "shell"


def typed_command(tool: str, arguments: CallArguments) -> str | None:
    """The arguments of `shell` that a call comes to; `None` when it writes to no program."""
    if tool != PROCESS:
        return None
    given = arguments.given
    text = given.get("text")
    if given.get("action") != "write" or not isinstance(text, str):
        return None
    return msgspec.json.encode({"command": text.strip()}, order="deterministic").decode()

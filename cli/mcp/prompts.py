"""A prompt of a server behind a slash, as people type it in a chat or an editor: `/SERVER:PROMPT`, with its arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ...client.client import Client
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.text import did_you_mean
from ..terminal.escaping import safe_line

if TYPE_CHECKING:
    from ...config.mcp.settings import PromptArgument
    from ...config.mcp.wire import McpPromptRow

METHOD = "mcp/prompt"
_LINE = re.compile(r"/([a-z0-9][a-z0-9_-]*:\S+)\s*(.*)", re.DOTALL)


class TypedPrompt(msgspec.Struct, frozen=True):
    """A prompt with what was typed behind it.

    Attributes:
        row: The prompt.
        given: The arguments that were given, by their names.
        missing: Those that it wants, too.
    """

    row: McpPromptRow
    given: dict[str, str]
    missing: tuple[PromptArgument, ...]


def prompt_line(line: str) -> tuple[str, str] | None:
    """Return the name and the rest of a line that begins with `/SERVER:PROMPT`; `None` for another line."""
    found = _LINE.fullmatch(line.strip())
    return None if found is None else (found[1], found[2])


async def find_prompts(client: Client) -> dict[str, McpPromptRow]:
    """Return the prompts of servers that can be used, by `SERVER:PROMPT`; nothing of a daemon that has none for us."""
    if METHOD not in client.welcome.methods:
        return {}
    return {f"{row.server}:{row.name}": row for row in await client.mcp.prompts()}


def typed_prompt(rows: dict[str, McpPromptRow], name: str, words: str) -> TypedPrompt:
    """Return the prompt of a name with these words as its arguments; raise `NotFoundError`.

    `NAME=VALUE` gives an argument by its name, other words the arguments in their order; the last one takes the rest.
    """
    row = rows.get(name)
    if row is None:
        close = did_you_mean(name, rows)
        raise NotFoundError(
            f"there is no prompt /{safe_line(name)}.{close} `callboard mcp show SERVER` says which a server has"
        )
    names = [each.name for each in row.arguments]
    given: dict[str, str] = {}
    rest = []
    for word in _split(words):
        its, sign, value = word.partition("=")
        if sign and its in names and its not in given:
            given[its] = value
        else:
            rest.append(word)
    free = [each for each in names if each not in given]
    if rest and not free:
        raise ValidationError(
            f"/{safe_line(name)} takes {'no more' if names else 'no'} arguments: what else you mean is written into "
            "its text"
        )
    for place, its in enumerate(free[: len(rest)]):
        is_last = place == len(free) - 1
        given[its] = " ".join(rest[place:]) if is_last else rest[place]
    missing = tuple(each for each in row.arguments if each.required and each.name not in given)
    return TypedPrompt(row, given, missing)


def usage_of(name: str, arguments: Iterable[PromptArgument]) -> str:
    """Return how a prompt is typed; what stands in brackets may be left out."""
    words = (each.name if each.required else f"[{each.name}]" for each in arguments)
    return safe_line(" ".join((f"/{name}", *words)))


def summary_of(row: McpPromptRow) -> str:
    """Return what a prompt is for, in a line."""
    return safe_line(row.title or row.description.partition("\n")[0] or f"a prompt of {row.server}")


def _split(words: str) -> Sequence[str]:
    try:
        return shlex.split(words)
    except ValueError:  # an apostrophe is no quotation
        return words.split()

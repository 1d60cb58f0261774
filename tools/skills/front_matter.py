"""The front matter of SKILL.md: the skill's name and description.

It stands between two lines of `---` and holds `name` and `description`, each once. Other keys
(`license`, `metadata`, …) are for other programs and are ignored. It is a small part of YAML, read by
hand: one line a value, in quotes or not, or the lines below `>` or `|`.
"""

from __future__ import annotations

import json
import re

import msgspec

from ...runtime.text import hidden_in

MAX_FRONT_CHARS = 8 * 1024
"""A name and a description, and what other programs put beside them."""
MAX_DESCRIPTION_CHARS = 1024
"""As the format has it; a list of skills shows the beginning."""

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
"""The name of a skill, which is also the name of its folder."""

_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?")
_END = re.compile(r"\n---[ \t]*(?:\n|\Z)")


class SkillFault(ValueError):
    """What is wrong with a skill, in words that continue "The skill NAME …: "."""


class FrontMatter(msgspec.Struct, frozen=True):
    """A skill's name and description."""

    name: str
    description: str


def read_front(text: str, folder: str) -> tuple[FrontMatter, str]:
    """Return the front matter of a skill in this folder, and the text after it.

    Raises `SkillFault`, which says what is missing or wrong.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.startswith("---\n"):
        raise SkillFault("its SKILL.md does not begin with a line of --- (the front matter)")
    end = _END.search(text, 3, MAX_FRONT_CHARS)
    if end is None:
        raise SkillFault(
            f"its front matter has no end: a second line of --- within {MAX_FRONT_CHARS} characters"
        )
    values = _values(text[4 : end.start() + 1].split("\n"))
    name, description = values.get("name", ""), " ".join(values.get("description", "").split())
    if not NAME.fullmatch(name):
        raise SkillFault("its `name` is missing, or is not of a-z, 0-9 and - (at most 64)")
    if name != folder:
        raise SkillFault(f"it calls itself {name!r}: name and folder must be the same")
    if not description or len(description) > MAX_DESCRIPTION_CHARS:
        raise SkillFault(
            f"its `description` is missing, or over {MAX_DESCRIPTION_CHARS} characters"
        )
    if (hidden := hidden_in(description)) is not None:
        raise SkillFault(f"its `description` has invisible characters: {hidden}")
    return FrontMatter(name, description), text[end.end() :]


def _values(lines: list[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (found := _KEY.fullmatch(line.rstrip())) is None:
            raise SkillFault(f"its front matter has a line that is not `key: value`: {line[:60]!r}")
        key, value = found[1], (found[2] or "").strip()
        below = at
        while at < len(lines) and (lines[at][:1] in {" ", "\t"} or not lines[at].strip()):
            at += 1
        if key in values:
            raise SkillFault(f"its front matter says `{key}` twice")
        values[key] = _value(value, lines[below:at])
    return values


def _value(value: str, below: list[str]) -> str:
    if value in {">", "|", ">-", "|-", ">+", "|+"}:
        return "\n".join(line.strip() for line in below)
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError:
            why = f"its front matter has a text without its closing quote: {value[:60]}"
            raise SkillFault(why) from None
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    return " ".join([value, *(line.strip() for line in below)]).strip()

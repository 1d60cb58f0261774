"""What a docstring says of a function and of its parameters: Google, NumPy and reST style."""

from __future__ import annotations

import inspect
import re

_GOOGLE = re.compile(
    r"^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+.*\n?|[ \t]*\n)*)", re.MULTILINE
)
_NUMPY = re.compile(
    r"^Parameters[ \t]*\n-{3,}[ \t]*\n((?:.*\n?)*?)(?=^\S.*\n-{3,}[ \t]*$|\Z)", re.MULTILINE
)
_REST = re.compile(
    r"^:(?:param|parameter|arg|argument)[ \t]+(?:[^:\n]*[ \t])?(\w+)[ \t]*:[ \t]*"
    r"(.*(?:\n(?!:)[ \t]*\S.*)*)",
    re.MULTILINE,
)
_SECTION = re.compile(
    r"^(?:\w[\w ]*:[ \t]*\n[ \t]+\S|\w[\w ]*\n-{3,}[ \t]*$|:\w+[^:\n]*:)", re.MULTILINE
)
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)[ \t]*(?:\(.*?\))?:[ \t]*(.*)")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+(?:[ \t]*,[ \t]*\w+)*)[ \t]*(?::.*)?$")


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The first paragraph as one line, and what the sections say of each parameter."""
    first_section = _SECTION.search(text)
    summary = text if first_section is None else text[: first_section.start()]
    paragraph = " ".join(summary.split("\n\n", 1)[0].split())
    return paragraph, {**_numpy(text), **_rest(text), **_google(text)}


def _google(text: str) -> dict[str, str]:
    section = _GOOGLE.search(text)
    described: dict[str, str] = {}
    current = ""
    for line in _lines(section):
        entry = _GOOGLE_ENTRY.match(line)
        if entry:
            current = entry[1]
            described[current] = entry[2].strip()
        elif current and line.strip():
            described[current] = f"{described[current]} {line.strip()}".strip()
    return described


def _numpy(text: str) -> dict[str, str]:
    section = _NUMPY.search(text)
    described: dict[str, str] = {}
    current: list[str] = []
    for line in _lines(section):
        entry = _NUMPY_ENTRY.match(line)
        if entry:
            current = [name.strip() for name in entry[1].split(",")]
            described.update(dict.fromkeys(current, ""))
        elif line.strip():
            for name in current:
                described[name] = f"{described[name]} {line.strip()}".strip()
    return {name: said for name, said in described.items() if said}


def _rest(text: str) -> dict[str, str]:
    return {name: " ".join(said.split()) for name, said in _REST.findall(text)}


def _lines(section: re.Match[str] | None) -> list[str]:
    """A section's lines, entries at the margin and what continues them indented."""
    return [] if section is None else inspect.cleandoc("\n" + section[1]).splitlines()

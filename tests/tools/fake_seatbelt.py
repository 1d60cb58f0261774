"""Plays macOS's `sandbox-exec` on Linux: reads a profile, and has bubblewrap hold what it says.

It knows the rules that callboard writes and no others. It keeps the list of processes and their
groups as they are, as a Mac does: what a program leaves behind is for the warden to find.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

TOKEN = re.compile(r'[()]|"(?:\\.|[^"\\])*"|[^\s()"]+', re.DOTALL)
ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|.)", re.DOTALL)
PLAIN = {"n": "\n", "r": "\r", "t": "\t"}

Form = list[Any]
"""Words, and lists of them."""


def read(text: str) -> Form:
    """The rules, as lists of words; strings keep a leading quote."""
    stack: list[Form] = [[]]
    assert not TOKEN.sub("", text).strip(), "this is no profile"
    for token in TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif token.startswith('"'):
            stack[-1].append('"' + ESCAPE.sub(plain, token[1:-1]))
        else:
            stack[-1].append(token)
    assert len(stack) == 1, "a parenthesis is not closed"
    return stack[0]


def plain(found: re.Match[str]) -> str:
    said = found[1]
    return chr(int(said[1:], 16)) if len(said) == 3 else PLAIN.get(said, said)


def value(form: Any, parameters: dict[str, str]) -> str:
    if isinstance(form, str):
        return form[1:]
    assert form[0] == "param"
    return parameters[str(form[1])[1:]]


def arguments(rules: Form, parameters: dict[str, str]) -> list[str]:
    """What bubblewrap is told, in the order of the rules."""
    words = ["--unshare-user", "--unshare-net", "--cap-drop", "ALL", "--dev", "/dev"]
    for name in ("bin", "lib", "lib64", "sbin"):
        if os.path.islink(f"/{name}"):
            words += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
    assert ["deny", "default"] in rules
    assert ["deny", "network*"] in rules
    for rule in rules:
        verdict, *rest = rule
        operations = {each for each in rest if isinstance(each, str)}
        for kind, path in (each for each in rest if isinstance(each, list) and len(each) == 2):
            if kind not in ("literal", "subpath"):
                continue
            place = value(path, parameters)
            if not os.path.lexists(place) or place in ("/", "/dev/fd") or place.startswith("/dev"):
                continue
            words += mounts(str(verdict), operations, str(kind), place)
    return [*words, "--remount-ro", "/"]


def mounts(verdict: str, operations: set[str], kind: str, place: str) -> list[str]:
    if verdict == "allow" and kind == "subpath":
        writes = "file-write*" in operations
        return ["--bind" if writes else "--ro-bind", place, place]
    if verdict == "deny" and "file-read*" in operations:
        return ["--tmpfs", place] if os.path.isdir(place) else ["--ro-bind", "/dev/null", place]
    if verdict == "deny":
        return ["--ro-bind" if kind == "subpath" else "--bind", place, place]
    return []


def main() -> None:
    words = sys.argv[1:]
    parameters: dict[str, str] = {}
    text = ""
    while (word := words.pop(0)) != "--":
        said = words.pop(0)
        if word == "-f":
            text = Path(said).read_text(encoding="utf-8", errors="surrogateescape")
        else:
            assert word == "-D"
            name, _, parameters[name] = said.partition("=")
    told = arguments(read(text), parameters)
    os.execv("/usr/bin/bwrap", ["bwrap", *told, "--chdir", os.getcwd(), "--", *words])


if __name__ == "__main__":
    main()

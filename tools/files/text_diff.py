"""Unified diffs of texts, for models and for people."""

from __future__ import annotations

from collections.abc import Iterable

MAX_DIFF_LINES = 2_000
"""difflib grows with the square of what differs."""
CONTEXT_LINES = 3
"""As in diff -u."""

Opcode = tuple[str, int, int, int, int]
"""What difflib says of a piece: how it differs, and where it stands in both."""


def diff(before: str, after: str, name: str) -> str:
    """A unified diff; what is the same at both ends is not even looked at.

    Empty when nothing differs; when too much does, a line that says so.
    """
    changed = _Changed(before, after)
    if changed.is_large:
        lines, first = len(changed.old), changed.first + 1
        return f"(the changes span {lines} lines from line {first}: too many to show)"
    return changed.text(name, name)


def whole_diff(before: str | None, after: str, name: str) -> str:
    """A unified diff of everything; where too much differs to compare, all of it is replaced.

    Args:
        before: The old text, or `None` of a file that is new.
        after: The new one.
        name: The file's, for people.
    """
    if before == after:
        return ""
    old_name = "/dev/null" if before is None else name
    return _Changed(before or "", after).text(old_name, name)


class _Changed:
    """The lines in which two texts differ, and some around them; line ends are those of Unix."""

    def __init__(self, before: str, after: str) -> None:
        old, new = _lines(before), _lines(after)
        shorter = min(len(old), len(new))
        start = 0
        while start < shorter and old[start] == new[start]:
            start += 1
        end = 0
        while end < shorter - start and old[-1 - end] == new[-1 - end]:
            end += 1
        self.first = max(0, start - CONTEXT_LINES)
        self._tail = min(end, CONTEXT_LINES)
        self.old = old[self.first : len(old) - end + self._tail]
        self.new = new[self.first : len(new) - end + self._tail]
        self._start = start - self.first

    @property
    def is_large(self) -> bool:
        """Whether comparing them would take too long."""
        return max(len(self.old), len(self.new)) > MAX_DIFF_LINES

    def text(self, old_name: str, new_name: str) -> str:
        pieces = [f"--- {old_name}\n", f"+++ {new_name}\n"]
        for group in self._groups():
            pieces.extend(_hunk(group, self.old, self.new, self.first))
        return "".join(pieces) if len(pieces) > 2 else ""

    def _groups(self) -> Iterable[list[Opcode]]:
        import difflib  # here: it costs a program that edits nothing its start

        if not self.is_large:
            matcher = difflib.SequenceMatcher(None, self.old, self.new)
            return matcher.get_grouped_opcodes(CONTEXT_LINES)
        start, old, new = self._start, len(self.old), len(self.new)
        old_end, new_end = old - self._tail, new - self._tail
        return [
            [
                ("equal", 0, start, 0, start),
                ("replace", start, old_end, start, new_end),
                ("equal", old_end, old, new_end, new),
            ]
        ]


def _lines(text: str) -> list[str]:
    # Not `splitlines`: what a file's other readers take for one line is one here.
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _hunk(group: list[Opcode], old: list[str], new: list[str], first: int) -> list[str]:
    ranges = [
        f"{first + low + (1 if high > low else 0)},{high - low}"
        for low, high in ((group[0][1], group[-1][2]), (group[0][3], group[-1][4]))
    ]
    lines = [f"@@ -{ranges[0]} +{ranges[1]} @@\n"]
    for tag, old_low, old_high, new_low, new_high in group:
        if tag == "equal":
            lines.extend(_marked(" ", old[old_low:old_high]))
            continue
        lines.extend(_marked("-", old[old_low:old_high]))
        lines.extend(_marked("+", new[new_low:new_high]))
    return lines


def _marked(mark: str, lines: list[str]) -> list[str]:
    ending = "\n\\ No newline at end of file\n"
    return [f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}{ending}" for line in lines]

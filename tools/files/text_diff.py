"""Unified diffs of texts, for models and for people.

difflib finds the changes. Its own `unified_diff` is not used, since it has no bound (its time grows
with the square of what differs), can't leave out equal ends without shifting line numbers, and does
not mark a missing line end.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_DIFF_LINES = 2_000
"""Lines that are compared; beyond it, comparing takes seconds."""
CONTEXT_LINES = 3
"""As in diff -u."""

Opcode = tuple[str, int, int, int, int]
"""difflib's description of a piece: how it differs, and where it is in both texts."""


def diff(before: str, after: str, name: str) -> str:
    """Return a unified diff; a line that says so when too much differs, or empty when nothing."""
    changed = _ChangedLines(before, after)
    if changed.is_large:
        lines, first = len(changed.old), changed.first + 1
        return f"(the changes span {lines} lines from line {first}: too many to show)"
    return changed.unified(name, name)


def whole_diff(before: str | None, after: str, name: str) -> str:
    """Return a unified diff from the old text (`None`: a new file); all is replaced where too much differs."""
    if before == after:
        return ""
    old_name = "/dev/null" if before is None else name
    return _ChangedLines(before or "", after).unified(old_name, name)


class _ChangedLines:
    """The lines in which two texts differ, without the equal ends but for some context."""

    def __init__(self, before: str, after: str) -> None:
        old, new = _lines(before), _lines(after)
        start = _common(old, new)
        end = _common(old[start:][::-1], new[start:][::-1])
        self.first = max(0, start - CONTEXT_LINES)
        self._tail = min(end, CONTEXT_LINES)
        self.old = old[self.first : len(old) - end + self._tail]
        self.new = new[self.first : len(new) - end + self._tail]
        self._start = start - self.first

    @property
    def is_large(self) -> bool:
        return max(len(self.old), len(self.new)) > MAX_DIFF_LINES

    def unified(self, old_name: str, new_name: str) -> str:
        pieces: list[str] = []
        for group in self._groups():
            spans = [(group[0][1], group[-1][2]), (group[0][3], group[-1][4])]
            old, new = (f"{self.first + a + (b > a)},{b - a}" for a, b in spans)
            pieces.append(f"@@ -{old} +{new} @@\n")
            for tag, old_low, old_high, new_low, new_high in group:
                if tag == "equal":
                    pieces += _marked(" ", self.old[old_low:old_high])
                else:
                    pieces += _marked("-", self.old[old_low:old_high])
                    pieces += _marked("+", self.new[new_low:new_high])
        return "".join([f"--- {old_name}\n+++ {new_name}\n", *pieces]) if pieces else ""

    def _groups(self) -> Iterable[list[Opcode]]:
        import difflib  # here, so that a start does not pay for it

        if not self.is_large:
            matcher = difflib.SequenceMatcher(None, self.old, self.new)
            return matcher.get_grouped_opcodes(CONTEXT_LINES)
        start, old, new = self._start, len(self.old), len(self.new)
        old_end, new_end = old - self._tail, new - self._tail
        before, after = ("equal", 0, start, 0, start), ("equal", old_end, old, new_end, new)
        return [[before, ("replace", start, old_end, start, new_end), after]]


def _lines(text: str) -> list[str]:
    # Not `splitlines`, which also splits at characters that no other reader takes for line ends.
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _common(one: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _marked(mark: str, lines: list[str]) -> list[str]:
    ending = "\n\\ No newline at end of file\n"
    return [f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}{ending}" for line in lines]

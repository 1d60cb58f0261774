"""A plan while it is drafted: steps so far, what depends on what, and what `it` means now."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from .steps import (
    Content,
    Intent,
    LineBreak,
    Memory,
    ResultOf,
    Said,
    Step,
    Understanding,
    changes_files,
    paths_of,
)

MAX_STEPS = 64
"""More requests than one message of a person holds; half of the parallel calls of a session."""

_MANY = frozenset({"them", "these", "those", "both", "all", "files", "everything"})
_THESE = frozenset({"them", "these", "those", "both"})


class Draft:
    """Steps, problems and references of one text, in the making.

    Attributes:
        text: The text that is read.
        latest_is_file: Whether what was named last is a file, rather than a value.
        code: The last block of code that stood alone, with its language.
        empty: Files that the plan has made without content.
    """

    def __init__(self, text: str, memory: Memory) -> None:
        self.text = text
        self.latest_is_file = bool(memory.files)
        self.code: tuple[str, str] | None = None
        self.empty: set[str] = set()
        self._steps: list[Step] = []
        self._problems: list[str] = []
        self._unknown: list[str] = []
        self._files: tuple[str, ...] = memory.files
        self._all_files: list[str] = []
        self._value: Content = () if memory.value is None else (Said(memory.value),)
        self._all_values: list[Said | ResultOf | LineBreak] = []

    def finished(self) -> Understanding:
        """What came of it."""
        return Understanding(
            steps=tuple(self._steps),
            problems=tuple(dict.fromkeys(self._problems)),
            unknown=tuple(self._unknown),
        )

    def add(self, intent: Intent, *, needs: Iterable[int] = (), quiet: bool = False) -> int:
        """Plans a step and gives its number; beyond `MAX_STEPS` it only says so."""
        if len(self._steps) >= MAX_STEPS:
            self.problem(
                f"I take at most {MAX_STEPS} steps from one message; ask for the rest in another."
            )
            return MAX_STEPS - 1
        hard, soft = self._dependencies(intent)
        hard |= set(needs)
        self._steps.append(
            Step(
                intent=intent,
                needs=frozenset(hard),
                after=frozenset(soft - hard),
                quiet=quiet,
            )
        )
        return len(self._steps) - 1

    def problem(self, sentence: str) -> None:
        """Tells the person what is missing or was left out."""
        self._problems.append(sentence)

    def not_understood(self, text: str) -> None:
        """Notes words that ask for nothing known."""
        self._unknown.append(text)

    def named(self, files: Sequence[str]) -> None:
        """Files that `it` and `them` may mean from here on."""
        fresh = tuple(dict.fromkeys(files))
        if fresh:
            self._files = fresh
            self._all_files.extend(f for f in fresh if f not in self._all_files)
            self.latest_is_file = True

    def renamed(self, moves: Iterable[tuple[str, str]]) -> None:
        """Files that have another name from here on."""
        targets = dict(moves)
        self._all_files = [targets.get(f, f) for f in self._all_files]
        self.named(list(targets.values()))

    def found(self, content: Content) -> None:
        """A value that `it` may mean from here on."""
        if content:
            self._value = content
            self._all_values.extend(piece for piece in content if piece not in self._all_values)
            self.latest_is_file = False

    def files(self, pronoun: str) -> tuple[str, ...]:
        """The files that a pronoun means; empty when none was named."""
        if pronoun in _MANY and len(self._files) < 2 and len(self._all_files) > 1:
            return tuple(self._all_files)
        return self._files if pronoun in _MANY else self._files[-1:]

    def value(self, pronoun: str) -> Content:
        """The value that a pronoun means; empty when there is none."""
        several = pronoun in _MANY or pronoun in {"results", "answers", "times"}
        if not several or (len(self._value) > 1 and pronoun in _THESE):
            return self._value
        values = self._all_values[-2:] if pronoun == "both" else self._all_values
        return tuple(values) or self._value

    def value_of(self, kind: type[Intent]) -> Content:
        """The results of all steps of one kind, such as every time that was asked."""
        return tuple(
            ResultOf(number, label_of(step.intent))
            for number, step in enumerate(self._steps)
            if isinstance(step.intent, kind)
        )

    def _dependencies(self, intent: Intent) -> tuple[set[int], set[int]]:
        hard: set[int] = set()
        soft: set[int] = set()
        for piece in getattr(intent, "content", ()):
            if isinstance(piece, ResultOf):
                hard.add(piece.step)
            elif isinstance(piece, LineBreak):
                soft.add(piece.step)
        for number, step in enumerate(self._steps):
            if not (changes_files(intent) or changes_files(step.intent)):
                continue
            touched = [
                overlap(mine, theirs)
                for mine in paths_of(intent)
                for theirs in paths_of(step.intent)
            ]
            if "same" in touched and number not in soft:
                hard.add(number)
            elif "around" in touched:
                soft.add(number)
        return hard, soft


def label_of(intent: Intent) -> str:
    """A short name of what a step brings, for a list of several."""
    for field in ("place", "path", "url", "pattern"):
        text = getattr(intent, field, "")
        if text:
            return str(text)
    return ""


def overlap(one: str, other: str) -> str:
    """How two paths of the workspace meet: `same`, `around` (one holds the other), or not."""
    one, other = (posixpath.normpath("/" + path) for path in (one, other))
    if one == other:
        return "same" if one != "/" else "around"
    if one == "/" or other == "/" or one.startswith(other + "/") or other.startswith(one + "/"):
        return "around"
    return ""

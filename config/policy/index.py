"""The rules of one verdict about one tool, kept so that most of them need not be asked.

Most rules name a folder: a call on `src/a.py` asks those about `src`, not those about a thousand
other folders. Patterns that begin with a wildcard are one expression, which says at once whether
any of them fits. The index only leaves out rules that can't match; the rules themselves decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from ...runtime.definitions import Verdict
from .match import CallArguments, CompiledRule
from .path_pattern import PathPattern


class RuleIndex:
    """Rules in the order of their places.

    Args:
        rules: All of one verdict, and about one tool.
    """

    def __init__(self, rules: Iterable[CompiledRule]) -> None:
        self.rules = tuple(rules)
        self._always: list[int] = []
        self._by_argument: dict[str, _FolderIndex] = {}
        for number, rule in enumerate(self.rules):
            paths = ((name, c.paths) for name, c in rule.rule.arguments.items() if c.paths)
            name, patterns = next(paths, ("", ()))
            if not patterns:
                self._always.append(number)
                continue
            is_strict = rule.verdict is not Verdict.ALLOW
            index = self._by_argument.setdefault(name, _FolderIndex(is_strict))
            for pattern in patterns:
                index.add(number, PathPattern(pattern, fold=is_strict))

    def candidates(self, arguments: CallArguments) -> Sequence[CompiledRule]:
        """The rules that may match such a call."""
        if not self._by_argument:
            return self.rules
        numbers = set(self._always)
        for name, index in self._by_argument.items():
            if arguments.has(name):
                numbers.update(index.numbers(arguments.paths(name, fold=index.is_strict)))
        return [self.rules[number] for number in sorted(numbers)]


class _FolderIndex:
    """Numbers of rules by the first name of the paths that they are about."""

    def __init__(self, is_strict: bool) -> None:
        self.is_strict = is_strict
        self._all: list[int] = []
        self._by_head: dict[str, list[int]] = {}
        self._anywhere: list[int] = []
        self._patterns: list[PathPattern] = []

    def add(self, number: int, pattern: PathPattern) -> None:
        self._all.append(number)
        if pattern.head is None:
            self._anywhere.append(number)
            self._patterns.append(pattern)
        else:
            self._by_head.setdefault(pattern.head, []).append(number)

    def numbers(self, paths: tuple[str, ...] | None) -> Iterable[int]:
        if paths is None:
            return self._all if self.is_strict else ()
        found: list[int] = []
        for path in paths:
            if not path:
                return self._all
            found += self._by_head.get(path.partition("/")[0], ())
            if self._patterns and self._expression.match(path):
                found += self._anywhere
        return found

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        """Whether any of the patterns without a first name fits."""
        said = (pattern.expression(reaching=self.is_strict) for pattern in self._patterns)
        return re.compile("|".join(said), re.DOTALL)

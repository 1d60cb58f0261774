"""Families of Claude models: what each takes and refuses.

From Anthropic's models overview, migration guides and the errors of its API, for API version
2023-06-01. "On" is what a request without `thinking` gets.

| family                       | thinking                    | sampling   | forced tool  | schema |
| ---------------------------- | --------------------------- | ---------- | ------------ | ------ |
| 1, 2, 3, 3.5                 | none                        | yes        | yes          | no     |
| 3.7, 4, 4.1                  | budget                      | while off  | while off    | no     |
| 4.5                          | budget                      | while off  | while off    | yes    |
| 4.6                          | adaptive                    | while off  | while off    | yes    |
| 4.7, 4.8                     | adaptive                    | no         | while off    | yes    |
| sonnet 5, opus 5, haiku 5.5  | adaptive, on                | no         | while off    | yes    |
| sonnet 5.5                   | adaptive, on; between tools | no         | no           | yes    |
| opus 5.5, fable, mythos, and | adaptive, on; never off     | no         | no           | yes    |
| whatever comes later         |                             |            |              |        |
| not Claude                   | budget                      | yes        | while off    | no     |

"Not Claude" are models of other makers on compatible servers, which know what the first Claude
with reasoning knew. With sampling, Claude takes a temperature up to 1, and only one of `temperature`
and `top_p`.

`max_tokens` has no default of the API's own. Ours is the most that the older families write; of the
newer ones it is a generous answer, since what a request may write counts for their rate limits and
against their window. Reasoning is part of it.
"""

from __future__ import annotations

import enum
import re

import msgspec

from ...runtime.definitions import ThinkingEffort

MIN_BUDGET_TOKENS = 1024
"""Anthropic: `budget_tokens` "must be ≥1024 and less than `max_tokens`"."""

_BUDGETS = {
    ThinkingEffort.LOW: 2048,
    ThinkingEffort.MEDIUM: 8192,
    ThinkingEffort.HIGH: 24_576,
}
_LINES = "opus|sonnet|haiku|fable|mythos"
# The number comes after the line in newer ids and before it in older ones. A date has more than
# two digits, and is not a minor version.
_ID = re.compile(
    rf"claude-(?:(?P<line>{_LINES}|instant)-)?v?(?P<major>\d{{1,2}})(?:[-.](?P<minor>\d{{1,2}}))?"
    rf"(?!\d)(?:-(?P<old_line>{_LINES}))?"
)


class Switch(enum.Enum):
    """How a model's reasoning is turned off."""

    OMIT = enum.auto()
    """Reasoning is off unless asked for."""
    DISABLED = enum.auto()
    BETWEEN_TOOLS = enum.auto()
    NEVER = enum.auto()
    """Reasoning can't be turned off; the least effort is the nearest."""


class ClaudeFamily(msgspec.Struct, frozen=True):
    """A family of models.

    Attributes:
        max_tokens: The limit of an answer when the request names none.
        thinks: Whether it can reason before it answers.
        is_adaptive: Whether it takes an effort instead of a budget.
        off: How its reasoning is turned off.
        takes_sampling: Whether it takes `temperature` and `top_p` while it does not reason.
        takes_both: Whether it takes both of them at once.
        takes_schema: Whether it takes the JSON Schema of an answer.
    """

    max_tokens: int
    thinks: bool = True
    is_adaptive: bool = False
    off: Switch = Switch.OMIT
    takes_sampling: bool = True
    takes_both: bool = False
    takes_schema: bool = False

    @property
    def takes_force(self) -> bool:
        """Return whether it can be forced to call a tool, with reasoning off."""
        return self.off in {Switch.OMIT, Switch.DISABLED}

    def budget(self, effort: ThinkingEffort, max_tokens: int) -> int | None:
        """Return how much of an answer may be reasoning, `None` if there is no room."""
        if max_tokens <= MIN_BUDGET_TOKENS:
            return None
        return max(MIN_BUDGET_TOKENS, min(_BUDGETS[effort], max_tokens // 2))


_OTHER = ClaudeFamily(8192, takes_both=True)
_NEWEST = ClaudeFamily(
    64_000, is_adaptive=True, off=Switch.NEVER, takes_sampling=False, takes_schema=True
)


def claude_family(model: str) -> ClaudeFamily:
    """Return the family of a model's id, which may have a platform's prefix and suffix."""
    if "claude" not in model:
        return _OTHER
    match = _ID.search(model)
    if match is None:
        return _NEWEST
    version = (int(match["major"]), int(match["minor"] or 0))
    line = match["line"] or match["old_line"] or ""
    if version < (4, 6):
        return _older(version, line)
    if version < (5, 0):
        return msgspec.structs.replace(_NEWEST, off=Switch.OMIT, takes_sampling=version < (4, 7))
    return msgspec.structs.replace(_NEWEST, off=_switch(version, line))


def _older(version: tuple[int, int], line: str) -> ClaudeFamily:
    if version < (3, 7):
        return ClaudeFamily(8192 if version == (3, 5) else 4096, thinks=False)
    if version < (4, 5):
        return ClaudeFamily(64_000 if line == "sonnet" else 32_000)
    return ClaudeFamily(64_000, takes_schema=True)


def _switch(version: tuple[int, int], line: str) -> Switch:
    if (line, version) in {("sonnet", (5, 0)), ("opus", (5, 0)), ("haiku", (5, 5))}:
        return Switch.DISABLED
    return Switch.BETWEEN_TOOLS if (line, version) == ("sonnet", (5, 5)) else Switch.NEVER

"""Families of OpenAI's own models: what each takes and refuses.

From OpenAI's reference and the errors of its API:

| family                 | efforts                  | `temperature`, `top_p` | `stop` |
| ---------------------- | ------------------------ | ---------------------- | ------ |
| gpt-4 and before, chat | none                     | yes                    | yes    |
| o1, o3, o4             | low, medium, high        | no                     | no     |
| gpt-5                  | minimal to high          | no                     | no     |
| gpt-5.1 to gpt-5.4     | none, low to high        | while effort is none   | no     |
| gpt-5.5 and later      | none, low to high        | no                     | no     |
| … codex                | low to high              | no                     | no     |
| … pro                  | fixed, or medium to high | no                     | no     |

An id of no known family is not a reasoning model: nothing special is sent for it.
"""

from __future__ import annotations

import re

import msgspec

from ...runtime.definitions import ThinkingEffort

_ID = re.compile(r"(?:ft:)?(?:o(?P<o>\d)|gpt-(?P<major>\d+)(?:\.(?P<minor>\d+))?)(?P<kind>[-:].*)?")
_FIRST_REASONING_GPT = (5, 0)
_FIRST_WITH_NONE = (5, 1)
_LAST_WITH_SAMPLING = (5, 4)
_FIRST_WITHOUT_TOOLS = (5, 2)


class OpenAiFamily(msgspec.Struct, frozen=True):
    """A family of models.

    Attributes:
        is_reasoning: Whether it reasons before it answers.
        version: Version of a `gpt` model as two numbers, else `(0, 0)`.
        is_codex: Whether it is the variant for code.
        is_pro: Whether it is the variant that always reasons long.
    """

    is_reasoning: bool = False
    version: tuple[int, int] = (0, 0)
    is_codex: bool = False
    is_pro: bool = False

    @property
    def can_skip_reasoning(self) -> bool:
        """Return whether it takes the effort `none`."""
        return self.version >= _FIRST_WITH_NONE and not (self.is_codex or self.is_pro)

    @property
    def reasons_without_tools_only(self) -> bool:
        """Return whether Chat Completions refuses function tools unless the effort is `none`."""
        return self.version >= _FIRST_WITHOUT_TOOLS and self.can_skip_reasoning

    def effort(self, thinking: ThinkingEffort | None) -> str | None:
        """Return the provider's word for an effort, `None` to send none."""
        if thinking is None or not self.is_reasoning:
            return None
        if self.is_pro:
            return "high" if thinking is ThinkingEffort.HIGH else None
        if thinking is not ThinkingEffort.OFF:
            return thinking.value
        if self.can_skip_reasoning:
            return "none"
        return "minimal" if self.version == _FIRST_REASONING_GPT and not self.is_codex else "low"

    def takes_sampling(self, effort: str | None) -> bool:
        """Return whether `temperature` and `top_p` may be sent beside this effort."""
        if not self.is_reasoning:
            return True
        is_between = self.can_skip_reasoning and self.version <= _LAST_WITH_SAMPLING
        return is_between and effort in {None, "none"}


def openai_family(model: str) -> OpenAiFamily:
    """Return the family of a model's id."""
    match = _ID.fullmatch(model)
    if match is None:
        return OpenAiFamily()
    if match["o"]:
        return OpenAiFamily(is_reasoning=True)
    version = (int(match["major"]), int(match["minor"] or 0))
    kind = match["kind"] or ""
    if version < _FIRST_REASONING_GPT or "-chat" in kind:
        return OpenAiFamily()
    return OpenAiFamily(True, version, "-codex" in kind, "-pro" in kind)

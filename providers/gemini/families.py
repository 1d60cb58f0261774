"""Families of Gemini models: what each takes and refuses.

| family | thinking is set by | least | answers as JSON beside tools | unsigned calls |
| --- | --- | --- | --- | --- |
| `gemini-1…`, `gemini-2.0…`, images and speech of 2.5 | nothing: refused | - | refused | accepted |
| `gemini-2.5-pro` | `thinkingBudget` 128 to 32768 | 128 | refused | accepted |
| `gemini-2.5-flash` | `thinkingBudget` 0 to 24576 | 0 | refused | accepted |
| `gemini-2.5-flash-lite` | `thinkingBudget` 0, 512 to 24576 | 0 | refused | accepted |
| `gemini-3…flash…` to 3.6 | `thinkingLevel` | `MINIMAL` | accepted | refused |
| other `gemini-3…` and later | `thinkingLevel` | `LOW` | accepted | refused |
| `gemma-…` | nothing: refused | - | refused | accepted |
| aliases without a version | `thinkingBudget`, which all that they may name accept | 512 | refused | refused |

`gemini-3-pro` knows only `LOW` and `HIGH`. `gemma-3` and before take no system instruction.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ...runtime.definitions import ThinkingEffort

_GEMINI = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_FIRST_FLASH_FROM_LOW = (3, 7)
"""Google: "Explicitly setting `thinking_level` to `MINIMAL` will return an API validation error"."""
_BUDGETS = {
    ThinkingEffort.LOW: 1024,
    ThinkingEffort.MEDIUM: 8192,
    ThinkingEffort.HIGH: 24576,
}
_LEVELS = {
    ThinkingEffort.LOW: "LOW",
    ThinkingEffort.MEDIUM: "MEDIUM",
    ThinkingEffort.HIGH: "HIGH",
}


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """What the models of one family take.

    Attributes:
        needs_signatures: A call in the history without a signature is refused.
        takes_schema_with_tools: A request with tools may have a schema of the answer too.
        takes_system: A request may have a system instruction.
        has_budget: Thinking is set in tokens.
        has_levels: Thinking is set by level.
        least_budget: The smallest budget that it takes.
        least_level: The lowest level that it takes.
        has_medium: It has the level `MEDIUM`.
    """

    needs_signatures: bool = False
    takes_schema_with_tools: bool = False
    takes_system: bool = True
    has_budget: bool = False
    has_levels: bool = False
    least_budget: int = 0
    least_level: str = "LOW"
    has_medium: bool = True

    def thinking_config(
        self, effort: ThinkingEffort | None, max_output_tokens: int | None
    ) -> dict[str, Any] | None:
        """Return the `thinkingConfig` for an effort, `None` for the model's own default.

        Tokens of thinking count against the limit of the answer, so that a budget leaves half of
        it to what a person reads.
        """
        if effort is None or not (self.has_budget or self.has_levels):
            return None
        config: dict[str, Any] = {"includeThoughts": effort is not ThinkingEffort.OFF}
        if self.has_levels:
            level = _LEVELS.get(effort, self.least_level)
            config["thinkingLevel"] = "HIGH" if level == "MEDIUM" and not self.has_medium else level
            return config
        budget = _BUDGETS.get(effort, self.least_budget)
        if max_output_tokens is not None and effort is not ThinkingEffort.OFF:
            budget = max(min(budget, max_output_tokens // 2), self.least_budget, 512)
        config["thinkingBudget"] = budget
        return config


def family_of(model: str) -> Family:
    """Return the family of a model."""
    name = model.rpartition("/")[2].lower()
    if name.startswith("gemma"):
        return Family(takes_system=not re.match(r"gemma-?[123]\b|gemma$", name))
    found = _GEMINI.match(name)
    if found is None:
        return Family(needs_signatures=True, has_budget=True, least_budget=512)
    version = (int(found[1][:9]), int((found[2] or "0")[:9]))
    if version >= (3, 0):
        return Family(
            needs_signatures=True,
            takes_schema_with_tools=True,
            has_levels=True,
            least_level="MINIMAL" if "flash" in name and version < _FIRST_FLASH_FROM_LOW else "LOW",
            has_medium=not (version == (3, 0) and "flash" not in name),
        )
    if version < (2, 5) or any(word in name for word in ("-image", "-tts", "-audio")):
        return Family()
    return Family(has_budget=True, least_budget=0 if "flash" in name else 128)

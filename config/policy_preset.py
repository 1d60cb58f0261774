"""What a preset says about a call, before any rule: pure, no state.

It follows from three things: the preset, the tier of the call, and whether the tool's own
`approval` found a reason to ask. Each preset asks whenever a laxer one does.
"""

from __future__ import annotations

import msgspec

from ..runtime.definitions import Preset, Tier
from .policy_rules import Verdict


class Ruling(msgspec.Struct, frozen=True):
    """A verdict and where it comes from.

    Attributes:
        verdict: What holds.
        reason: Why, in words for a person and for the model.
        rule: What decided: `preset balanced`, or a rule with its place in the file.
    """

    verdict: Verdict
    reason: str
    rule: str


def ruling(preset: Preset, tier: Tier, approval_reason: str | None) -> Ruling:
    """Applies the presets to one call.

    Args:
        preset: The agent's.
        tier: The call's own, which may be higher than its tool's.
        approval_reason: Why the tool's `approval` asks for a person, or `None` when it doesn't.
    """
    rule = f"preset {preset}"
    if tier is Tier.ELEVATED:
        return Ruling(Verdict.ASK, "elevated calls ask in every preset", rule)
    if preset is not Preset.AUTO and approval_reason is not None:
        return Ruling(Verdict.ASK, f"{preset} asks: {approval_reason}", rule)
    if preset is Preset.STRICT and tier is not Tier.READ_ONLY:
        return Ruling(Verdict.ASK, f"strict asks for every {tier} call", rule)
    return Ruling(Verdict.ALLOW, f"{preset} lets {tier} calls run", rule)


def verdict(preset: Preset, tier: Tier, approval_reason: str | None) -> Verdict:
    """The verdict of `ruling` alone."""
    return ruling(preset, tier, approval_reason).verdict

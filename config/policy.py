"""Which calls run, and which ask a person first: pure rules, no state.

A call's verdict follows from three things: the preset, the tier of the call, and whether the
tool's own `approval` found a reason to ask. Each preset asks whenever a laxer one does.
"""

from __future__ import annotations

import enum

import msgspec

from ..runtime.definitions import Preset, Tier


class Verdict(enum.StrEnum):
    """What the policy says about a call, from lax to strict."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Ruling(msgspec.Struct, frozen=True):
    """A verdict with the rule that decided it, in words for a person."""

    verdict: Verdict
    reason: str


def ruling(preset: Preset, tier: Tier, approval_reason: str | None) -> Ruling:
    """Applies the presets to one call.

    Args:
        preset: The agent's.
        tier: The call's own, which may be higher than its tool's.
        approval_reason: Why the tool's `approval` asks for a person, or `None` when it doesn't.
    """
    if tier is Tier.ELEVATED:
        return Ruling(Verdict.ASK, "elevated calls ask in every preset")
    if preset is not Preset.AUTO and approval_reason is not None:
        return Ruling(Verdict.ASK, f"{preset} asks: {approval_reason}")
    if preset is Preset.STRICT and tier is not Tier.READ_ONLY:
        return Ruling(Verdict.ASK, f"strict asks for every {tier} call")
    return Ruling(Verdict.ALLOW, f"{preset} lets {tier} calls run")


def verdict(preset: Preset, tier: Tier, approval_reason: str | None) -> Verdict:
    """The verdict of `ruling` alone."""
    return ruling(preset, tier, approval_reason).verdict

"""The ruling of a preset on a call, before any rule. Pure.

It follows from the preset, the call's tier, whether the tool's own `approval` found a reason to ask, and
whether the call reaches a host that is new to its session. Each preset asks whenever a laxer one does.
"""

from __future__ import annotations

import msgspec

from ...runtime.definitions import Preset, Tier, Verdict

EXPOSED = "the session has read untrusted content and private data"


class Ruling(msgspec.Struct, frozen=True):
    """A verdict and where it comes from.

    Attributes:
        reason: Why, for a person and for the model.
        rule: What decided: `preset balanced`, or a rule with its place in the file.
        defer: Whether the turn of a call that asks goes on meanwhile.
        is_about_host: Whether it asks only about a host that no list has: once a session.
    """

    verdict: Verdict
    reason: str
    rule: str
    defer: bool = False
    is_about_host: bool = False

    @property
    def is_by_preset(self) -> bool:
        """Whether no rule decided."""
        return self.rule.startswith("preset ")


def ruling(
    preset: Preset,
    tier: Tier,
    approval_reason: str | None,
    new_host: str | None = None,
    *,
    is_exposed: bool = False,
) -> Ruling:
    """Return the ruling of a preset on one call.

    Args:
        preset: The agent's preset.
        tier: The call's tier, which may be higher than its tool's.
        approval_reason: Why the tool's `approval` asks for a person, or `None`.
        new_host: What is new about where it connects, in words, or `None`, also where this preset
            does not look at that.
        is_exposed: Whether the session has read untrusted content and private data: whoever wrote
            the first may want the second, and a new host may be theirs.
    """
    rule = f"preset {preset}"
    if tier is Tier.ELEVATED:
        return Ruling(Verdict.ASK, "elevated calls ask in every preset", rule)
    if preset is not Preset.AUTO:
        way_out = f"{EXPOSED}, and {new_host}" if is_exposed and new_host else None
        reasons = [reason for reason in (approval_reason, way_out) if reason is not None]
        if reasons:
            return Ruling(Verdict.ASK, f"{preset} asks: {'; '.join(reasons)}", rule)
    if preset is Preset.STRICT and tier is not Tier.READ_ONLY:
        return Ruling(Verdict.ASK, f"strict asks for every {tier} call", rule)
    if preset is not Preset.AUTO and new_host is not None:
        reason = f"{preset} asks for each new host: {new_host}"
        return Ruling(Verdict.ASK, reason, rule, is_about_host=preset is Preset.BALANCED)
    return Ruling(Verdict.ALLOW, f"{preset} lets {tier} calls run", rule)

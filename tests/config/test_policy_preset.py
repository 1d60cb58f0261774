from __future__ import annotations

import pytest

from callboard.config.policy.preset import ruling
from callboard.runtime.definitions import Preset, Tier, Verdict

OVERWRITES = "it overwrites an existing file"
DELETES = "it deletes files"

# docs/tools.md's table: call, tier, why its `approval` asks, then auto, balanced, strict.
TABLE = [
    ("get_current_time", Tier.READ_ONLY, None, "allow", "allow", "allow"),
    ("list_directory", Tier.READ_ONLY, None, "allow", "allow", "allow"),
    ("read_file", Tier.READ_ONLY, None, "allow", "allow", "allow"),
    ("search_files", Tier.READ_ONLY, None, "allow", "allow", "allow"),
    ("write_file new", Tier.WORKSPACE, None, "allow", "allow", "ask"),
    ("edit_file", Tier.WORKSPACE, None, "allow", "allow", "ask"),
    ("move_file", Tier.WORKSPACE, None, "allow", "allow", "ask"),
    ("write_file overwrite", Tier.WORKSPACE, OVERWRITES, "allow", "ask", "ask"),
    ("move_file overwrite", Tier.WORKSPACE, OVERWRITES, "allow", "ask", "ask"),
    ("delete_file", Tier.WORKSPACE, DELETES, "allow", "ask", "ask"),
    ("an application's tool", Tier.SYSTEM, None, "allow", "allow", "ask"),
    ("an application's tool that asks", Tier.SYSTEM, "it sends mail", "allow", "ask", "ask"),
    ("a foreign tool", Tier.ELEVATED, None, "ask", "ask", "ask"),
    ("a foreign tool that asks", Tier.ELEVATED, "it pays", "ask", "ask", "ask"),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_each_preset_decides_as_the_table_of_tools_says(
    row: tuple[str, Tier, str | None, str, str, str],
) -> None:
    _, tier, approval_reason, *expected = row
    assert [ruling(preset, tier, approval_reason).verdict for preset in Preset] == expected


def test_a_stricter_preset_a_higher_tier_or_a_reason_to_ask_never_allows_more() -> None:
    asks = {
        (p, t, r): ruling(preset, tier, reason).verdict is Verdict.ASK
        for p, preset in enumerate(Preset)
        for t, tier in enumerate(Tier)
        for r, reason in enumerate((None, DELETES))
    }
    for (p, t, r), asked in asks.items():
        for stricter in ((p + 1, t, r), (p, t + 1, r), (p, t, r + 1)):
            assert asks.get(stricter, True) >= asked


@pytest.mark.parametrize(
    ("preset", "tier", "approval_reason", "reason"),
    [
        (Preset.AUTO, Tier.ELEVATED, DELETES, "elevated calls ask in every preset"),
        (Preset.BALANCED, Tier.WORKSPACE, DELETES, "balanced asks: it deletes files"),
        (Preset.STRICT, Tier.WORKSPACE, DELETES, "strict asks: it deletes files"),
        (Preset.STRICT, Tier.WORKSPACE, None, "strict asks for every workspace call"),
        (Preset.AUTO, Tier.SYSTEM, DELETES, "auto lets system calls run"),
    ],
)
def test_a_ruling_says_which_rule_decided(
    preset: Preset, tier: Tier, approval_reason: str | None, reason: str
) -> None:
    assert ruling(preset, tier, approval_reason).reason == reason

"""tools/sandbox/tiers: its contract stands here."""

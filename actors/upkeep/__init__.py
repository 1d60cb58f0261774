"""actors/upkeep: its contract stands here."""

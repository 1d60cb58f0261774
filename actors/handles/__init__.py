"""actors/handles: its contract stands here."""

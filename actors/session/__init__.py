"""actors/session: its contract stands here."""

"""actors/permissions: its contract stands here."""

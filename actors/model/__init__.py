"""actors/model: its contract stands here."""

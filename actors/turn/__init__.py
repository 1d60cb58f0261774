"""actors/turn: its contract stands here."""

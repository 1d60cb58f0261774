"""actors/delegation: its contract stands here."""

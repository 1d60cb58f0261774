"""actors/budget: its contract stands here."""

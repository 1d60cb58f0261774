"""actors/people: its contract stands here."""

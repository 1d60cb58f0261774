"""actors/calls: its contract stands here."""

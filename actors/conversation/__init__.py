"""actors/conversation: its contract stands here."""

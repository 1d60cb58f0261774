"""cli/chat: its contract stands here."""

"""cli/ask: its contract stands here."""

"""cli/run: its contract stands here."""

"""cli/setup: its contract stands here."""

"""cli/remote: its contract stands here."""

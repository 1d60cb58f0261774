"""cli/store: its contract stands here."""

"""cli/terminal: its contract stands here."""

"""cli/show: its contract stands here."""

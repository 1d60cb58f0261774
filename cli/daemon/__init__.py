"""cli/daemon: its contract stands here."""

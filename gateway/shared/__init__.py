"""gateway/shared: its contract stands here."""

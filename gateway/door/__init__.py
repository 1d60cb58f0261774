"""gateway/door: its contract stands here."""

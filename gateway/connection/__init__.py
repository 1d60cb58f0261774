"""gateway/connection: its contract stands here."""

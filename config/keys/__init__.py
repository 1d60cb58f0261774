"""config/keys: its contract stands here."""

"""config/policy: its contract stands here."""

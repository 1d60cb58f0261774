"""providers/testing: its contract stands here."""

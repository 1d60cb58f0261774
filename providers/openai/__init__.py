"""providers/openai: its contract stands here."""

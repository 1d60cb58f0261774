"""providers/anthropic: its contract stands here."""

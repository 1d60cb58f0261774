"""tools/schema: its contract stands here."""

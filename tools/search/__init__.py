"""tools/search: its contract stands here."""

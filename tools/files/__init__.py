"""tools/files: its contract stands here."""

"""tools/git: its contract stands here."""

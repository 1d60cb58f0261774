"""tools/workspace: its contract stands here."""

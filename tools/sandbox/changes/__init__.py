"""tools/sandbox/changes: its contract stands here."""

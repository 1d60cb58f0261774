"""runtime/changes: its contract stands here."""

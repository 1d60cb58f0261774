"""tools/undo: its contract stands here."""

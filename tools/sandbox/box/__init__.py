"""tools/sandbox/box: its contract stands here."""

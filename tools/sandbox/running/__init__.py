"""tools/sandbox/running: its contract stands here."""

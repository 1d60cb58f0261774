"""tools/processes: its contract stands here."""

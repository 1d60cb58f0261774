"""tools/programs: its contract stands here."""

"""tools/skills: its contract stands here."""

"""providers/rehearsal: its contract stands here."""

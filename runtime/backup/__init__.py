"""runtime/backup: its contract stands here."""

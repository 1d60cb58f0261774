"""runtime/disk: its contract stands here."""

"""runtime/store: its contract stands here."""

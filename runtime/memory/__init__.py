"""runtime/memory: its contract stands here."""

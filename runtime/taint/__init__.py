"""runtime/taint: its contract stands here."""

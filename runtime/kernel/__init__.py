"""runtime/kernel: its contract stands here."""

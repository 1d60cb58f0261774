"""runtime/turns: its contract stands here."""

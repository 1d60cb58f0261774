"""providers/catalog: its contract stands here."""

"""runtime/store/tables: its contract stands here."""

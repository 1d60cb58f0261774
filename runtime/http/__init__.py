"""runtime/http: its contract stands here."""

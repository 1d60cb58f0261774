"""runtime/event_types: its contract stands here."""

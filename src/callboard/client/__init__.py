"""src/callboard/client: its contract stands here."""

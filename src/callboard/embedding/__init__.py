"""src/callboard/embedding: its contract stands here."""

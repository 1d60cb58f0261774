"""providers/gemini: its contract stands here."""

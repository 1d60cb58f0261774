"""providers/openai_responses: its contract stands here."""

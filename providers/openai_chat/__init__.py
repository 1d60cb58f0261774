"""providers/openai_chat: its contract stands here."""

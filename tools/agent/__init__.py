"""tools/agent: its contract stands here."""

"""tools/sandbox/network: its contract stands here."""

"""tools/sandbox/selftest: its contract stands here."""

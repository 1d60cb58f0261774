"""cli/policy: its contract stands here."""

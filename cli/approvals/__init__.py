"""cli/approvals: its contract stands here."""

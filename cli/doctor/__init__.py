"""cli/doctor: its contract stands here."""

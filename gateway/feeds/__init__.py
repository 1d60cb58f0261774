"""gateway/feeds: its contract stands here."""

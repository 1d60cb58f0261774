"""src/callboard/portals: its contract stands here."""

"""Lives that end at a chosen operation of their disk."""

"""What travels between a daemon and its clients: shared by both sides, known to neither."""

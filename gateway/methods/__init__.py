"""gateway/methods: its contract stands here."""

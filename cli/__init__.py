"""The commands: thin, over the host."""

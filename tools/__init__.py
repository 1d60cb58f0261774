"""What a model can ask for: one family of tools a file, on handles that the context gives."""

"""Pages and searches: what the web says, as text that a model can read."""

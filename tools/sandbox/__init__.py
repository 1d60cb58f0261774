"""Programs that a model asks for, in a box: what they may see, reach and use up."""

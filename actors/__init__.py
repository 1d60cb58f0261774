"""One actor a file, in the order that a prompt meets them; imports go down that list."""

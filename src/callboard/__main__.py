"""`python -m callboard`."""

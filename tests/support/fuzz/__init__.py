"""The fuzz targets, which take any bytes.

The tests in `tests/fuzz` search them briefly, `make soak` and `scripts/fuzz` for longer.
"""

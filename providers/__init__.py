"""A model behind one small interface.

A wire format is a request builder and a decoder, both without I/O; HTTP, deadlines and retries
live in the model stream actor alone. Models that run in the process implement `LocalModel`.
"""

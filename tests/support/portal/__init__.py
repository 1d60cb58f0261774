"""Whole programs of other event loops, in processes of their own, and a model that counts.

They are for the tests of the portals and of the embedding.
"""

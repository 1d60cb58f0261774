"""What the flows share: batches of calls, calls that are deferred or interrupted, and taints.

Some are programs too, which are killed where it hurts most (`killed`). `seed_proofs` says which
test proves which line of the documents that callboard began with.
"""

"""Memories: notes that sessions of an agent leave for later ones, and indexes that find them by meaning.

A memory is an event (`MemoryStored`) of the session that stored it, so the store is their only home. Its id
follows from agent, text and tags: storing the same again changes nothing. `memories` has the struct, the
limits, the protocols of the handles, and how a text becomes words for full-text search, which is the
default.

An index by meaning (the extra `vectors`) is a copy that can be lost at any time: what it misses is added at
the next start, and a damaged one is made again. `index` has its protocol and decides how similar is similar
enough. `vector_file` keeps it in a SQLite file of its own, `lance_table` in a LanceDB table that other
programs can read. `static_embedding` makes vectors without running a model: the mean of one vector for
each token.

Begin with `memories`, then `index`.
Comes in: memories and queries.
Goes out: memories, best first; vectors.
Owns: `vectors.db` or `memories.lance` in the data folder.
Imports: `runtime.errors`; apsw and sqlite-vec, or lancedb, numpy and tokenizers, each when it is used.
"""

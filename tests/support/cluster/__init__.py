"""The database of a cluster, played: SQLite in memory runs the statements of nodes, on a clock that is set."""

"""PostgreSQL for tests: a cluster that the run starts for itself, and a database for each test."""

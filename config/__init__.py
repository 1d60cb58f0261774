"""Settings and policy: plain structs and pure rules, read from TOML at one edge."""

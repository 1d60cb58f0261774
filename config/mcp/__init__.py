"""Servers of the Model Context Protocol in the configuration, and the tools of them that a person has accepted.

What a server says of itself decides nothing: `settings` says which program or address it is, how dangerous its tools
are, and where its secrets come from, which never stand in a file. `pins` keeps each definition as it was accepted,
with its digest: models see these, and a tool that its server describes in another way is withheld.

Begin with `settings`.
Comes in: the tables `[mcp.NAME]` of callboard.toml and managed.toml; the file mcp-pins.json.
Goes out: `McpSettings` with its accepted tools, for `tools.mcp`.
Owns: mcp-pins.json, which its owner alone can read.
Imports: config (private files), runtime.
"""

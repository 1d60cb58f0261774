"""`callboard mcp`: servers of the Model Context Protocol are added, looked at, accepted and removed.

Nothing of a server is used before a person has seen its tools here. When a daemon runs, it starts the server and makes
the changes, and they hold at once; else the command does it by itself, in the sandbox. `commands` has the commands,
`place` is where they work, `review` is what a person sees of a server's tools and says about them, `importing` reads
the files of other programs.

Begin with `commands`.
Comes in: command lines; the files of other programs; the servers.
Goes out: managed.toml, mcp-pins.json, stored secrets.
Owns: nothing that outlives a command.
Imports: cli.terminal, cli.setup, tools.mcp, config, runtime.
"""

"""`callboard mcp`: servers of the Model Context Protocol are added, looked at, accepted and removed.

Nothing of a server is used before a person has seen its tools here. A command starts the server by itself, in the
sandbox, whether a daemon runs or not; what it writes (managed.toml, the accepted tools) a daemon reads at once.
`commands` has the commands, `review` what a person sees of a server's tools and says about them, `importing` reads the
files of other programs.

Begin with `commands`.
Comes in: command lines; the files of other programs; the servers.
Goes out: managed.toml, mcp-pins.json, stored secrets.
Owns: nothing that outlives a command.
Imports: cli.terminal, cli.setup, tools.mcp, config, runtime.
"""

"""Doctor: test what callboard needs of this machine, and say what to do where something is missing.

Each check is a function that returns a `finding`: good, a warning, or a problem, with its fix. Nothing
is changed by looking.

Begin with `doctor`, which runs all checks and prints them. `files` looks at folders, permissions, disk,
clock and locks; `nodes` at the nodes of a cluster; `reach` at the configuration, the model, its provider, the port and the daemon.
Comes in: the configuration and the data folder, whatever state they are in.
Goes out: one line for each check, or JSON; exit code 1 when there is a problem.
Owns: nothing.
Imports: `tools.sandbox`, `client`, `config`, `providers.catalog`, `embedding.models`.
"""

"""Setup: agents, settings, keys, providers, models, tokens, memories and skills.

All of these but memories are files, not rows of the store. When a daemon runs, it is asked to change
them, so that the change holds at once; otherwise the command changes the same files with the same code
(`cli.backend.FileBackend`). A key is asked for without being shown, or read from stdin; it is never an
option, and no command prints one.

Begin with `keys`. `agents`, `settings`, `providers`, `models`, `tokens`, `memories` and `skills` are the
commands of these names, too.
Comes in: names and options; a key, typed or piped.
Goes out: lines or JSON Lines; a new token, once.
Owns: nothing; the files belong to `config` (`managed`, `keys`, `skill_approvals`) and `providers.catalog`.
Imports: `cli.backend`, `embedding` (`agents`, `settable`), `providers.catalog`, `config`, `tools.skills`.
"""

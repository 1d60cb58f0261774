"""Configuration: the settings, how they are read, and the small files that callboard keeps for its owner.

Settings are frozen structs with a default, a unit and a reason each. `callboard.toml` is the operator's
and is never written; `managed.toml` beside it holds what commands change, and loses where both name the
same. Reading is all or nothing: one mistake, named with file, line and setting, and nothing of the file
holds. A running process takes new settings as a whole (`LiveLimits`, `PolicyBook.replace`,
`PriceTable.replace`); `setting_rows` says which wait for a restart.

Files that hold secrets or decide who may do what are read with suspicion (owner, mode 0600, no links) and
replaced whole under a lock: `private_file`. Policy and keys have folders of their own.

`in_force` holds the configuration in force: whoever needs a setting looks there at each use.

Begin with `settings`: every public setting; `sections` holds those of single tables (`[sandbox]`,
`[server]`, …). `files` finds and reads the two files, `toml_reader` words mistakes, `managed` writes.
`validation` checks what a program passes as a file's values are checked.
`base_url` says what a URL of a provider is and where a key may travel; `prices` what tokens cost;
`usage_sums` adds up what calls took; `search_engines` lists engines; `skill_approvals` keeps which skills
a person approved; `daemon_file` finds the running daemon.
Comes in: TOML text, environment variables, small JSON files.
Goes out: `Settings`; `managed.toml`, `skills.json`, `daemon.json`, `tokens.json`, `console.json`, `keys.db`.
Owns: the configuration in force; every other function reads the files again.
Imports: `runtime`.
"""

"""Keys: provider keys at rest, the master key that seals them, and the tokens of the daemon.

A provider's key is sealed with AES-256-GCM in `keys.db`, bound to its provider, origin, name and version:
a row that is copied over another one, or sent to another origin, does not open. The master key is kept
apart from the data that it protects: in a file of the configuration folder, in the system's keyring or in
a systemd credential, and only where the settings say. When it is missing the store is locked, and nothing
falls back to plain text. A rotation keeps the old and the next key side by side until all rows are sealed
with the next one, in one transaction; wherever it is cut off, one of the two opens all rows.

A token of the daemon is 256 random bits; `tokens.json` holds its SHA-256 alone. `console.json` holds that of the
two halves of each login of the web console.

Begin with `store`: stored keys, and their file. `sealing` encrypts; `master` finds the master key;
`tokens` makes, finds and revokes tokens, and says what each may see;
`console_logins` are browsers that act as one.
Comes in: keys and tokens as `Secret`s; names and origins.
Goes out: `Secret`s, which are masked in every log from then on.
Owns: `keys.db`, `tokens.json`, `console.json` and the master key's file; all are opened for one operation.
Imports: `runtime`, `files`, `private_file`, `settings`.
"""

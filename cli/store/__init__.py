"""Store: sessions as things to search, rename, delete, export, undo and replay; the store as a file.

Begin with `sessions`: each change goes through `cli.backend`, to the daemon or to a runtime of this
process; it exports and imports, too. `undo` takes back what calls changed in files after it has shown
what that would do, `replay` runs a session again from its record, and `store` makes backups, restores,
upgrades and compacts.
Comes in: ids or their beginnings, words, files.
Goes out: lines or JSON Lines; a file of an export or a backup.
Owns: nothing; restore, upgrade and compact hold the lock of the data folder meanwhile.
Imports: `cli.backend`, `runtime.backup`, `tools.undo`, `actors.upkeep`.
"""

"""Upkeep: what people, and callboard itself, do with whole sessions beside their turns.

No turn knows of any of this. Deleting a session hides it with everything below it and can be taken back;
purging removes it for good. Folders and file versions are set aside before the commit of a purge and
removed after it, so that a crash between the two loses nothing that a session still names. Titles are
asked of the model after the first answer, within the session's budget. A replay runs the code of turns
against the record, with recorded answers and results in place of models and tools, and compares what
comes out: it acts on nothing.

Begin with `keeping`: rename, fork, delete, restore, purge, search, export and import of sessions. `pruning`
decides what is deleted or purged by age and by the size of the store; `session_import` makes foreign
records harmless; `forking` copies a session up to one of its messages; `titles` names sessions; `undo` takes back what calls changed in files, and tells what
programs changed beyond that; `replay` compares.
Comes in: requests of people by way of the runtime; commits (`titles` watches them); the clock.
Goes out: `AppendEvents`, `ImportRecords`; `PurgeSessions`, `CancelTurn` and `WakeSession` to the directory.
Owns: which sessions have been looked at for titles; the last warning about the store's size.
Imports: `budget`, `conversation`, `model`, `people`, `turn`, `tools`, and what is below.
"""

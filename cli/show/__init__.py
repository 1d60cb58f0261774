"""Show: events, sessions and figures as text for people, and as JSON Lines for programs.

Everything that a model, a tool or a file wrote is escaped before it is printed (`cli.terminal.escaping`),
and cut where it must stay on one line.

Begin with `transcript`: a turn as a person reads it, event by event. `view` is that or JSON Lines.
`live_pieces` turns what a client hears (snapshots, batches, records) into events, each text once.
`inputs` has the rows of what people said elsewhere, `below` the lines for calls of sessions below. `event_lines` has the line for an event, `question_text` everything that a person decides about,
`markdown` a whole session as Markdown. `undone_files` shows what an undo would change. `sessions`, `usage` and `tools` are commands that only print.
Comes in: events, rows of the store, settings.
Goes out: text.
Owns: nothing; readers take no lock.
Imports: `cli.terminal`, runtime's events and store.
"""

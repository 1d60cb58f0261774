"""Handles: what the tools of a call act through, and nothing else.

A tool gets no path, socket or store. It gets handles for the capabilities that it declares (`needs`),
made for one call of one session, so that they know whose files, memories, people and plan are meant,
and what the call has read. The modules of `calls` hand them out; a handle that a session can't have
is `None`.

Memories are durable events of the sessions that stored them. An index of vectors beside them only helps
to find: what is on record counts, and an index that is behind or broken fails no call.

Begin with `open_handles`: it opens workspaces, shares them between calls, and makes every handle.
`memories` stores and reads memories by way of the journal, and marks a session that reads one which
strangers may have written; `memory_search` finds them by words and by meaning.
Comes in: a call with its place; the tools' requests through the handles.
Goes out: `PlanSet`, `MemoryStored` and `MemoryForgotten` to the journal; work for the file system.
Owns: the open workspaces, each with one descriptor; the index of memories while it is filled.
Imports: `calls`, `delegation`, `people`, `tools`, and what is below.
"""

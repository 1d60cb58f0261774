"""Files: the tools that read and change files of the workspace.

The tools hold no rule of their own on where they may reach: that is `tools.workspace`, through the
handles of the call. They turn arguments into one operation on it, bound what a model gets back, and
show a person what would happen before it does.

Begin with `files`: list_directory, write_file, move_file, delete_file. `file_pages` is read_file, whole
or page by page, and `file_edit` is edit_file, exact replacements, all or none. `preview` writes what a
person sees before they allow a call, `text_diff` unified diffs, `text_codec` converts between bytes
and text, and `file_facts` holds what the tools share.
Comes in: arguments, and the handles `files.read` and `files.write` of a call.
Goes out: `ToolResult`, previews as text, `ToolFailure`.
Owns: nothing; blocking work runs in the threads of `tools.processes.threads`.
Imports: `tools.tool`, `tools.schema`, `tools.workspace`, `tools.processes`, runtime's handles.
"""

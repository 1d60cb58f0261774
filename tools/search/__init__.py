"""Search: search_files, over names and contents of the workspace.

Two inputs could stop the whole runtime, since Python's `re` holds the interpreter while it backtracks:
the model's pattern and a cloned repository's .gitignore. So the cost of a pattern is computed before
it runs; a costly one runs in a process that can be killed. Lines of .gitignore are rewritten so that
they can't backtrack.

Begin with `search_files`: the tool, its walk, and its bounds. `search_pattern` computes the worst case
of a regular expression, `search_process` and `search_worker` are the two ends of the process for
costly ones, and `ignore_rules` decides which files are skipped.
Comes in: a pattern, a glob, a path, and the handle `files.read` of a call.
Goes out: matches with file and line, and counts of what was left out.
Owns: the matching process, for one search.
Imports: `tools.tool`, `tools.files`, `tools.workspace`, `tools.processes`, runtime's taint.
"""

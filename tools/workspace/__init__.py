"""Workspace: a root folder that no path of a model leads out of.

A model names paths as text, and other programs change the folder while calls run. So a path passes
two stages. Its text is checked without touching the disk: `..` is resolved by name, and protected
names (`.git/hooks`, `.callboard`, start-up files of shells) are refused. Then it is opened, not
checked: below the root's own descriptor, with the kernel's confinement (openat2), so that a link or a
rename at the wrong moment leads to an error and never to a file outside.

Writes go to a temporary file that takes its name in one rename: a crash leaves the old content or the
new one, never a part.

Begin with `workspace`: the handle to read, write, move and delete, and what makes a folder unfit.
`reader` is the half without writing, and turns `OSError` into `ToolFailure`. `paths` has the rules on
text, and refuses a name such as `../x` that leads out; `resolver` opens names below a root, and refuses
links that lead out; `openat2` holds the two system calls that Python lacks,
`protected_places` what one workspace protects besides, `atomic_write` the writing itself, and
`roots` which folders clients of a daemon may work below.
Comes in: a folder, paths and bytes.
Goes out: `FileInfo`, `FileContent`, `Listing` (runtime.handles); `ToolFailure`, `ValidationError`.
Owns: the descriptor of the root, until the last view of it is gone.
Imports: runtime's definitions, handles and errors.
"""

"""The data folder on the disk: who may write to it, who may read it, and how things in it are removed.

`data_lock` decides who writes: one process, by an flock that ends with the process, however it ends.
`private_folder` makes folders for their owner alone, refuses those that others can write to, makes files
durable (`sync_path`), and tells a dead process's temporary files from those that are being written.
`own_folders` has the workspaces that callboard makes for sessions that name none; it renames a folder
before removing it, so a crash in between is found and finished later.
`tree_removal` removes whole trees without following links or entering mounts. `core_dumps` keeps the
memory of processes with keys off the disk.

Begin with `private_folder`.
Comes in: paths.
Goes out: locks, folders; `StorageError` and `DataInUse`.
Owns: `callboard.lock` and the `workspaces` folder of a data folder.
Imports: `runtime.errors`, `runtime.identity`.
"""

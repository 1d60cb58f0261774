"""The node: what this process does in a cluster of several on one database.

`node` renews the lease, sees the others come and go, claims the sessions of those that are gone, and tells the rest of
the runtime which sessions are its own. What it decides is in `runtime/cluster`, which it runs in threads. Nothing of
this is imported where no cluster is configured.

`shared_locks` has calls on several nodes that write one file of a shared root take turns. `root_keeper` agrees with the other
nodes on the named roots, and has sessions of the time before a root had its name belong to it.

Begin with `node`; `opening` makes it of the settings, and the gate that keeps it from acting for longer than its lease.
Comes in: the directory's questions who owns a session; what the database says; tickets of other nodes.
Goes out: claimed sessions, to whom recovers them; the end of the lease.
Owns: this node's term and lease, and what its calls hold in shared roots.
Imports: `config`, `runtime.cluster`, `runtime.kernel`, `runtime.store`, `runtime.wire`, `tools`.
"""

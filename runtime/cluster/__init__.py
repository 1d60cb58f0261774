"""The cluster: several nodes on one database, each of which owns some of the sessions.

The database decides who owns what, and callboard has no consensus of its own. A *node* has a *lease* there, which it
renews; `lease` says how long, and what a node may do when its own count of it ends. When a node's lease has run out,
another one *fences* it: from that moment the database takes nothing from that *term* of the node, and what it owned
can be *claimed*. So a node that slept, or was cut off, writes nothing once others may own its sessions, whatever it
believes itself.

Nobody hands sessions out. `placement` has every node compute for itself which of those of a node that is gone are its
share, and it claims them in batches: those first in which something runs or waits. The others keep their owner until
somebody asks for them.

`roots` has the named roots: a session of one is owned only where that root is, and its place on record is `NAME:PATH`, which
`rooted_queries` reads as a folder of the node; `adoption` gives old sessions in the folder of a root that root and their place;
`shared_root` finds out whether a shared one is one file system, of this database alone. `fence` has the statements with which each commit of the store begins. By `tickets` a node knows another one that
connects to it. `diagnosis` says to people what is wrong with nodes.

This is the part without tasks. `registry` has the statements, each one transaction; `membership` decides what one
node does with them, and `postgres` is the connection. Both are run by the simulation of a thousand nodes as they are (tests/simulation/cluster.py;
docs/scale.md has its table).

Begin with `registry`, whose statements are all that nodes do to each other. `nodes` has the rows.
Comes in: a connection to the database, and a monotonic clock.
Goes out: terms, members, claimed sessions.
Owns: the folder `.callboard` of a shared root; the rows of the tables `cluster`, `nodes`, `node_keys` and `owners`.
Imports: `runtime.errors`, `runtime.events`, `runtime.store`, `runtime.wire`; psycopg.
"""

"""Cluster: show and drain nodes, and have systemd, Kubernetes or Ray run them, all from one file.

`commands` has what is typed. `status` and `drain` ask the database, and need no file. The others read `cluster.toml` by
`file`; `node_plan` makes of it what a node is started with, wherever that is. From there `systemd` renders units, by what `daemon.service_unit`
knows of hardening, and `kubernetes` a manifest, which `yaml` writes. Both are text alone, the same each time: nobody is asked.

Ray is asked: `ray_commands` has its commands, `ray_plan` decides which actors there shall be, `ray_nodes` places them. What runs there is `keeper`: an
ordinary class, which starts the daemon as a process and starts it again when it ends. No prompt comes by it.

Begin with `file`, then `node_plan`.
Comes in: cluster.toml, options, rows of the nodes.
Goes out: units, manifests, actors of Ray; the wish that a node drains.
Owns: nothing; Ray owns the actors, the database the nodes.
Imports: `gateway`, `config`, `runtime.cluster`; Ray, where it is used.
"""

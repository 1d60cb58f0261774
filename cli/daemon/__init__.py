"""Daemon: start, watch and stop the process that has the sessions, and have the system keep it running.

Begin with `serve`: it opens a runtime and a gateway and runs until SIGTERM. `commands` has its options and
imports it, with SIGHUP noted from the first moment on; `callboard protocol` is there, too. `serve_log`
writes the log through a bounded queue, so that a daemon never waits for its log. `stop` sends a signal,
which comes through however busy the daemon is, and says what it waits for. `service` writes the unit of
systemd or launchd that `service_unit` renders. `roots` decides which folders sessions of a daemon may
work in. `status` and `logs` print. `away` says that a daemon is away, for commands that wait for it.
Comes in: options, the configuration, signals.
Goes out: a running daemon, its first token, its log; units below /etc/systemd or the user's folder.
Owns: the log of a daemon, and the unit files that it wrote.
Imports: `gateway`, `embedding`, `client`, `config`.
"""

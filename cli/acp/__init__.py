"""ACP: editors drive callboard by the Agent Client Protocol, version 1.

The editor starts `callboard acp` and speaks JSON-RPC with it, a line each on stdin and stdout. The bridge runs no turn
itself: like a chat it is a client of the daemon that has the sessions, and begins one where none runs. So sessions
outlive the editor's window, other commands see them, and a daemon that restarts is found again.

the editor ──► connection ──► bridge ──► session ──► client ──► the daemon
           ◄── updates, questions ◄──────────────── events ◄──

Each session that the editor has open is followed from one place (`session`); `updates` turns its events into what
editors show, `calls` the tool calls among them. A question of the daemon is put by `questions`, and taken back when
somebody else was faster. What the editor sends is a person's word; the files and servers that it names are not.

Begin with `bridge`. `wire` is made from the protocol's schema by `scripts/acp-types`. `content` reads prompts,
`servers` the MCP servers that the editor brings, `forms` has the forms of servers that ask, `options` modes and options,
`slash` the commands that begin with a slash, `run` is one run of the command, `lean` keeps out of its
memory what it needs not, and `acp` has its options.
Comes in: lines on stdin, signals.
Goes out: lines on stdout, and nothing else there; warnings in the log.
Owns: nothing on disk; the turns of its prompts, which end with the editor where no `callboard serve` runs.
Imports: `client`, `cli.sharing`, `cli.ask`.
"""

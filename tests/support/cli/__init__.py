"""The command line as tests use it: real processes, forked by one that is warm to save their start.

`command` runs a command, `chat_scene` a chat at a pseudo-terminal, `daemon_process` a daemon;
`parsing` is how they all read a command line.
"""

// Imported before people.mjs: their daemon is then the one that has something to look at.
process.env.CONSOLE_PEER = "console_watch_peer";

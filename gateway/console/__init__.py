"""Console: the page that the port serves, and how a person's browser is let in.

The page is files that were built beforehand (`callboard/console/dist`). They are read once, when somebody first
asks for one, and are answered from memory: no path of a request ever reaches the disk. They hold no data. All
that a page shows and does goes over the websocket, as for every other client.

A browser logs in with a ticket, which a command of this user prints, or with a token that a person pastes. It
gets two halves: a cookie that goes with the websocket's upgrade alone, and a key that the page keeps in the
storage of its own port and offers as a subprotocol. Cookies know no ports, so a program on another port of this
machine may see the cookie, and has no key; a script in the page may use the key while it is open, and can't take
the cookie along. One half alone is refused like a wrong token. Nothing is changed by a cookie alone, so there is
nothing to forge.

Begin with `logins`: tickets, the two routes that log in and out, and what holds for an open page. `pages` is the
table of files and their headers.
Comes in: `Exchange`s of a few plain routes, upgrades with both halves (through the door), `console/ticket`.
Goes out: files, cookies and keys; the credential as which a page acts.
Owns: tickets that wait for their browser, and `console.json` of the data folder.
Imports: `door`, `shared`, and `config.keys`, which keeps the logins.
"""

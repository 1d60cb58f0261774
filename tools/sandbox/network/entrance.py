"""The first program in a sandbox with sockets: makes them, hands them out, and becomes the program.

It is started as a file of its own, with the quickest parts of the standard library alone. The sockets lie
in the sandbox's own network and files; the runtime gets them over the descriptor that is its first argument.
The program's words and variables reach this process only through the file that it reads, so nothing that a
model chose runs before the sockets are handed out.
"""

import _socket
import os
import signal
import sys

FOLDER = "/run/callboard"
START = "callboard.start"
BACKLOG = 128


def listeners(port: int, names: list[bytes]) -> list[_socket.socket]:
    """Return the sockets: the proxy's, if there is one, and those of the answerers."""
    made: list[_socket.socket] = []
    if port:
        made.append(_socket.socket(_socket.AF_INET, _socket.SOCK_STREAM))
        made[0].bind(("127.0.0.1", port))
    for name in names:
        made.append(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM))
        made[-1].bind(FOLDER.encode() + b"/" + name)
    for each in made:
        each.listen(BACKLOG)
    return made


def main() -> None:
    """Become the program, or say why that can't be."""
    # ruff: ignore[read-whole-file] importing pathlib takes as long as all the rest
    with open(f"{FOLDER}/{START}", "rb") as file:
        port, names, variables, *words = file.read().split(b"\0")
    count, more = int(names), int(variables)
    rest, argv = words[: count + more], words[count + more :]
    made = listeners(int(port), rest[:count])
    numbers = b"".join(each.fileno().to_bytes(4, sys.byteorder) for each in made)
    out = _socket.socket(fileno=int(sys.argv[1]))
    out.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
    out.close()
    for each in made:
        each.close()
    environment = {**os.environb, **dict(pair.split(b"=", 1) for pair in rest[count:])}
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        os.write(2, argv[0] + b": " + (error.strerror or "it can't be run").encode() + b"\n")
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()

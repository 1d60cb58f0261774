"""What a sandbox with sockets runs first: it makes the sockets, hands them out, and becomes the program.

It is started as a file of its own, with the standard library's quickest parts alone. The sockets lie
in the sandbox's own network and its own files; the runtime gets them over the descriptor named first
(`sockets`). No word or variable of the program reaches this process but through the file that it
reads: so nothing that a model chose runs before the sockets are out of its hands.
"""

import _socket
import os
import signal
import sys

FOLDER = "/run/callboard"
START = "callboard.start"
BACKLOG = 128


def listeners(port: int, names: list[bytes]) -> list[_socket.socket]:
    """The sockets: of the proxy, when there is one, and of those who answer."""
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
    """Never returns: it becomes the program, or says why it can't."""
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

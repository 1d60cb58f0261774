"""The credential helper that git runs in the sandbox: it passes git's question to the runtime.

It runs by any Python, with the standard library alone. The answer goes from the runtime's socket to git's
pipe; no file and no variable ever holds it.
"""

import socket
import sys

SOCKET = "/run/callboard/credential"
MAX_ANSWER_BYTES = 64 * 1024


def main() -> None:
    """Answer `get`; requests to store or erase a credential are ignored."""
    if sys.argv[1:] != ["get"]:
        return
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)
        connection.sendall(sys.stdin.buffer.read())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            sys.stdout.buffer.write(answer.read(MAX_ANSWER_BYTES))


if __name__ == "__main__":
    main()

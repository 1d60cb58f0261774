"""A program that runs `callboard` in a process of its caller's warm one, for lines of a shell.

`python -IS warm_client.py DESCRIPTOR ARGUMENTS`, where the descriptor leads to the server (`warm_process.py`).
"""

import json
import os
import socket
import sys

server, *tokens = sys.argv[1:]
read, write = os.pipe()
request = {
    "tokens": tokens,
    "folder": os.getcwd(),
    "environ": dict(os.environ),
    "terminal": False,
    "session": False,
    "program": "",
}
with socket.socket(fileno=int(server)) as requests:
    socket.send_fds(requests, [json.dumps(request).encode()], [0, 1, 2, write])
os.close(write)
with os.fdopen(read) as told:
    number, code = told
sys.exit(int(code))

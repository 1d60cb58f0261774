"""What the conformance suite starts for each scenario: hands it to `client`, which has imported everything once."""

import os
import socket
import sys

NOT_HERE = (
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
)
"""Extensions that no revision requires, and that callboard has not."""


def main() -> int:
    """Return the exit code of a client: 1 when the scenario's server could not be used."""
    name = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if name in NOT_HERE:
        return 1
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(sys.argv[1])
        context = os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"
        stream.sendall("\0".join((name, sys.argv[-1], context)).encode())
        stream.shutdown(socket.SHUT_WR)
        said = stream.makefile().read()
    sys.stderr.write(said)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())

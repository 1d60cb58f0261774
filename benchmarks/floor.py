"""The floor: the least that an agent on httpx and Trio can do, as a driver of the benchmarks.

A loop written by hand for one wire format: events are split by `bytes.split`, decoded by msgspec,
and the history is kept encoded. It checks nothing, records nothing, asks nobody and recovers from
nothing, so callboard's ratio to it is the price of all that.

With `FLOOR_SYNCS=1` it appends each answer with calls, and the results before it, to a file, and waits until
the disk has that before it runs them: the least that a loop can do that knows after a crash what it had begun.
"""

from __future__ import annotations

import os
import sys
import tempfile

from _common import Driver, main  # type: ignore[import-not-found]


class Floor(Driver):  # type: ignore[misc]
    name = "floor"
    runner = "trio"
    packages = ("httpx", "trio", "msgspec")

    def load(self) -> None:
        global httpx, Session
        sys.modules["rich"] = None  # type: ignore[assignment]  # no command line for httpx
        import httpx
        from floor_session import Session

    async def open(self, base_url: str) -> None:
        self._client = httpx.AsyncClient(
            timeout=60,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
            trust_env=False,
            headers={"authorization": "Bearer none"},
        )
        self._url = httpx.URL(base_url + "/chat/completions")
        self._log = tempfile.mkstemp()[0] if os.environ.get("FLOOR_SYNCS") else None

    def session(self, model, tool=None, rounds=1):
        return Session(self._post, model, tool, self._keep if self._log else None)

    def _keep(self, data: bytes) -> None:
        os.write(self._log, data)
        os.fdatasync(self._log)

    def _post(self, body: bytes):
        kind = {"content-type": "application/json"}
        return self._client.stream("POST", self._url, content=body, headers=kind)

    async def close(self) -> None:
        await self._client.aclose()


if __name__ == "__main__":
    main(Floor())

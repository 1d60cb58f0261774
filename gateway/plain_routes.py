"""Plain HTTP for supervisors and monitors: alive, ready, and figures."""

from __future__ import annotations

from ..config.credentials import Credential
from ..embedded import host_of
from ..runtime.wire.roles import Role
from .daemon import Daemon
from .http_answer import HttpAnswer
from .metrics import CONTENT_TYPE, metrics_text
from .request_head import RequestHead
from .server import Route


def plain_routes(daemon: Daemon) -> dict[str, Route]:
    """By path."""

    def alive(head: RequestHead, credential: Credential | None) -> HttpAnswer:
        return HttpAnswer(200, "ok")

    def ready(head: RequestHead, credential: Credential | None) -> HttpAnswer:
        if daemon.is_stopping:
            return HttpAnswer(503, "stopping")
        if host_of(daemon.runtime).plan.store.disk.problem():
            # Without the folder's name: whoever asks here may be anybody.
            return HttpAnswer(503, "storage_failed: the disk is full, or fails; see the status")
        return HttpAnswer(200, "ready")

    async def metrics(head: RequestHead, credential: Credential | None) -> HttpAnswer:
        if credential is None or not credential.role.includes(Role.OBSERVER):
            return HttpAnswer(401, "the figures are for whoever has a token")
        return HttpAnswer(200, await metrics_text(daemon), CONTENT_TYPE)

    return {"/healthz": alive, "/readyz": ready, "/metrics": metrics}

"""A server of the Model Context Protocol over HTTP, in a thread: a good one, and all bad ones.

It speaks the revision 2025-11-25, with sessions; `fault` makes it misbehave, at once or from the call of a tool on.
"""

from __future__ import annotations

import gzip
import json
import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import urlopen

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
MIB = 1024 * 1024
OFFERING: dict[str, Any] = {"prompts": {}, "completions": {}}
CITIES = ("Bergen", "Berlin", "Bern", "Lisbon")


class McpWebServer:
    """The server; its attributes may be changed while it runs.

    Attributes:
        fault: What it does wrong, or how it answers.
        tools: Names and descriptions of its tools.
        prompts: Its prompts as it lists them; one is made of its name and what it is given, and any argument may be a city.
        requests: What it was sent: method, path, headers by lower-case name, and the message.
        sessions: How many sessions it has begun.
        is_over: Set when the test is over; whoever hangs ends then.
    """

    def __init__(self) -> None:
        self.fault = ""
        self.tools = {"say": "Says what it is given."}
        self.prompts: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str, dict[str, str], dict[str, Any]]] = []
        self.sessions = 0
        self.token = ""
        self.streams: list[_Handler] = []
        self.is_over = threading.Event()
        self.other: Callable[[_Handler], bool] = lambda handler: False

        handler = type("Handler", (_Handler,), {"its": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.port: int = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def messages(self, method: str) -> list[dict[str, str]]:
        """Return the headers of the requests that carried messages of a method."""
        return [headers for _, _, headers, said in self.requests if said.get("method") == method]

    def serve(self) -> None:
        self._http.serve_forever(poll_interval=0.01)

    def close(self) -> None:
        self.is_over.set()
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def serving() -> Generator[McpWebServer]:
    server = McpWebServer()
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    its: McpWebServer
    protocol_version = "HTTP/1.1"
    said: dict[str, Any]
    body: bytes

    def log_message(self, format: str, *args: Any) -> None:  # ruff: ignore[builtin-argument-shadowing]
        pass

    def do_GET(self) -> None:
        self._note(b"")
        if self.its.other(self):
            return
        if self.its.fault == "sse":
            self._begin_stream()
            self._event(f"/mcp?sessionId={self.its.sessions}", "endpoint")
            self.its.streams.append(self)
            self.its.is_over.wait(60)
            return
        self.answer(405)

    def do_DELETE(self) -> None:
        self._note(b"")
        if self.its.fault == "slow-end":
            self.its.is_over.wait(60)
        self.answer(200)

    def do_POST(self) -> None:
        self._note(self.rfile.read(int(self.headers.get("content-length", 0))))
        if self.its.other(self):
            return
        with suppress(BrokenPipeError, ConnectionResetError):
            if self.its.token and self.headers.get("authorization") != f"Bearer {self.its.token}":
                self.answer(401)
            elif "id" not in self.said:
                self.answer(202)
            else:
                self._message()

    def _note(self, body: bytes) -> None:
        try:
            said = json.loads(body or b"{}")
        except ValueError:
            said = {}
        self.said, self.body = said, body
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.its.requests.append((self.command, self.path, headers, said))

    def _message(self) -> None:
        method = self.said["method"]
        begins = self.its.fault.removeprefix("at-start-")
        if begins != self.its.fault and method != "server/discover":
            self._misbehave(begins)
            return
        match method:
            case "initialize":
                self.its.sessions += 1
                self._result(
                    {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}, **(OFFERING if self.its.prompts else {})},
                        "serverInfo": {"name": "web", "version": "1"},
                    },
                    {"mcp-session-id": f"s{self.its.sessions}"},
                )
            case "tools/list":
                self._result(
                    {
                        "tools": [
                            {"name": name, "description": text, "inputSchema": TEXT}
                            for name, text in self.its.tools.items()
                        ]
                    }
                )
            case "prompts/list":
                self._result({"prompts": self.its.prompts})
            case "prompts/get":
                name, given = self.said["params"]["name"], self.said["params"].get("arguments", {})
                said = "\n".join([f"{name}:", *(f"{key} is {its}" for key, its in given.items())])
                part = {"type": "text", "text": said}
                self._result({"messages": [{"role": "user", "content": part}]})
            case "completion/complete":
                begun = self.said["params"]["argument"]["value"]
                values = [each for each in CITIES if each.startswith(begun)]
                self._result({"completion": {"values": values}})
            case "tools/call":
                if self.its.fault == "forgets":
                    self.its.fault = ""
                    self.answer(404)
                elif self.its.fault in {"", "sse", "events", "slow-end"}:
                    said = self.said["params"]["arguments"].get("text", "")
                    self._result({"content": [{"type": "text", "text": said}]})
                else:
                    self._misbehave(self.its.fault)
            case _:
                self._reply({"error": {"code": -32601, "message": "no such method"}})

    def _result(self, result: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._reply({"result": result}, headers)

    def _reply(self, said: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": self.said["id"], **said})
        if self.its.fault == "sse":
            self.answer(202)
            self.its.streams[-1]._event(body, "message")
        elif self.its.fault == "events" and not headers:
            self._begin_stream()
            self._event(body)
        else:
            self.answer(200, body.encode(), {"content-type": "application/json", **(headers or {})})

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _begin_stream(self, headers: dict[str, str] | None = None) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def _event(self, data: str, event: str = "message") -> None:
        self.wfile.write(f"event: {event}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def _misbehave(self, fault: str) -> None:  # ruff: ignore[complex-structure]  a case for each fault
        port = self.its.port
        match fault:
            case "hangs":
                self.its.is_over.wait(60)
            case "endless-events":
                self._begin_stream()
                note = '{"jsonrpc": "2.0", "method": "notifications/unknown"}'
                while not self.its.is_over.is_set():
                    self._event(note)
            case "endless-event":
                self._begin_stream()
                self.wfile.write(b"data: ")
                for _ in range(80):
                    self.wfile.write(b"x" * 65536)
                self.its.is_over.wait(60)
            case "endless-body":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                for _ in range(160):
                    self.wfile.write(b" " * 65536)
            case "bomb":
                body = gzip.compress(b" " * 16 * MIB, 1)
                headers = {"content-type": "application/json", "content-encoding": "gzip"}
                self.answer(200, body, headers)
            case "brotli":
                headers = {"content-type": "application/json", "content-encoding": "br"}
                self.answer(200, b"x" * 100, headers)
            case "slow-body":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "1000")
                self.end_headers()
                while not self.its.is_over.wait(0.05):
                    self.wfile.write(b" ")
            case "cut":
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "1000")
                self.end_headers()
                self.wfile.write(b"{")
                self.close_connection = True
            case "cut-stream":
                self._begin_stream()
            case "page":
                self.answer(200, b"<html>", {"content-type": "text/html"})
            case "garbage":
                self.answer(200, b"{]", {"content-type": "application/json"})
            case "error":
                self.answer(500, b"oops")
            case "login":
                self.answer(401)
            case "here":
                self.answer(307, headers={"location": f"http://localhost:{port}/mcp"})
            case "metadata":
                self.answer(308, headers={"location": "http://169.254.169.254/latest"})
            case "around":
                self.answer(307, headers={"location": "/mcp"})
            case "header":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nmcp-session-id: a\x00b\r\n\r\n")
                self.close_connection = True
            case _:
                raise AssertionError(fault)


class Issuer:
    """An authorization server beside the MCP server, on the same port; the person at its browser always agrees.

    Attributes:
        scopes: What the server asks for.
        announced, names: The issuer that the server names, and the one that it is.
        registered, refreshed: How many clients it has registered, and how often it renewed a token.
        forms: What was sent to its token endpoint.
        revoked: What was sent to where it takes logins back.
        refuses: The person refuses.
        takes_documents: Whether a client may be a document.
        fault: What it does wrong, or the server that names it.
    """

    def __init__(
        self, server: McpWebServer, *, expires_in: int | None = 3600, fault: str = ""
    ) -> None:
        self.fault = fault
        self.scopes = "read"
        self.registered = self.refreshed = 0
        self.refuses = self.takes_documents = False
        self.revoked: list[dict[str, str]] = []
        self.announced = self.names = server.url.removesuffix("/mcp")
        self.expires_in = expires_in
        self.forms: list[dict[str, str]] = []
        self._server = server
        self._code = ""
        server.token = "at-none"
        server.other = self._answer

    def browse(self, url: str) -> bool:
        """Be the browser: go where the address leads, in a thread; return at once."""
        threading.Thread(target=urlopen, args=(url,), daemon=True).start()
        return True

    def _answer(self, handler: _Handler) -> bool:  # ruff: ignore[complex-structure]  a case for each path
        where = urlsplit(handler.path)
        its = self._server
        if handler.command == "POST" and where.path == "/mcp" and self.fault == "another place":
            challenge = 'Bearer resource_metadata="https://10.1.2.3/?x=canary"'
            handler.answer(401, headers={"www-authenticate": challenge})
            return True
        match where.path:
            case "/.well-known/oauth-protected-resource/mcp":
                if self.fault == "endless discovery":
                    handler._begin_stream()
                    with suppress(OSError):
                        for _ in range(160):
                            handler.wfile.write(b" " * 65536)
                    return True
                said: dict[str, Any] = {
                    "resource": its.url,
                    "authorization_servers": [self.announced],
                    "scopes_supported": self.scopes.split(),
                }
            case "/.well-known/oauth-authorization-server":
                here = its.url.removesuffix("/mcp")
                said = {
                    "issuer": self.names,
                    "authorization_endpoint": f"{here}/authorize",
                    "token_endpoint": f"{here}/token",
                    "registration_endpoint": f"{here}/register",
                    "revocation_endpoint": f"{here}/revoke",
                    "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": True,
                }
                if self.takes_documents:
                    said["client_id_metadata_document_supported"] = True
                if self.fault == "an open page":
                    said["authorization_endpoint"] = "http://login.example/authorize"
            case "/register":
                self.registered += 1
                said = {**handler.said, "client_id": f"client-{self.registered}"}
                if self.fault == "a client without its id":
                    said = {"client_secret": "canary-client-secret"}
            case "/revoke":
                self.revoked.append(dict(parse_qsl(handler.body.decode())))
                said = {}
            case "/authorize":
                asked = dict(parse_qsl(where.query))
                self._code = secrets.token_hex(8)
                came = {"state": asked["state"], "iss": self.names}
                came |= {"error": "access_denied"} if self.refuses else {"code": self._code}
                location = f"{asked['redirect_uri']}?{urlencode(came)}"
                handler.answer(302, headers={"location": location})
                return True
            case "/token":
                form = dict(parse_qsl(handler.body.decode()))
                self.forms.append(form)
                if "refresh_token" in form:
                    self.refreshed += 1
                elif form.get("code") != self._code or "code_verifier" not in form:
                    handler.answer(400)
                    return True
                its.token = f"at-{secrets.token_hex(8)}"
                said = {"access_token": its.token, "token_type": "Bearer", "scope": self.scopes}
                said["refresh_token"] = f"rt-{secrets.token_hex(8)}"
                if self.expires_in is not None:
                    said["expires_in"] = self.expires_in
                if self.fault == "an answer without a token":
                    said = {"refresh_token": "canary-refresh-token"}
            case _:
                return False
        handler.answer(200, json.dumps(said).encode(), {"content-type": "application/json"})
        return True

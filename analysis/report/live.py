"""Serve the report of growing folders, to this machine only: `python -m analysis.report RESULTS --live`.

Three things are served, and no file of a folder: the page, its data as JSON, and a stamp that changes when a
record, a failure, an evaluation or an archive does.
"""

import html
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import cast

from .page import Parts, filled, parts

HOST = "127.0.0.1"
DEPTH = 4  # levels below a folder at which a record's evaluations can lie
WATCHED = ("result.json", "error.txt")
WAITING = (
    '<!DOCTYPE html><meta http-equiv="refresh" content="2"><title>waiting</title><p>%s</p><p>Waiting.</p>'
)


class Live:
    """The report of some folders and archives; it is made again at the first request after a change."""

    def __init__(self, homes: Sequence[Path]) -> None:
        self.homes = homes
        self._lock = Lock()
        self._made: tuple[str, Parts] | None = None

    def answer(self, path: str) -> tuple[str, str] | None:
        """Return (content type, text) of what is served at `path`; None: nothing is.

        ValueError, one line: there is nothing to draw yet.
        """
        if path == "/stamp":
            return "text/plain", stamp(self.homes)
        if path not in ("/", "/parts"):
            return None
        made = self._parts()
        if path == "/":
            return "text/html", filled(made, live=True)
        of = {"data": made.data, "details": made.details, "evaluations": made.evaluations}
        return "application/json", json.dumps(of, separators=(",", ":"), allow_nan=False)

    def _parts(self) -> Parts:
        with self._lock:
            now = stamp(self.homes)
            if self._made is None or self._made[0] != now:
                made = parts(self.homes, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
                made.data["stamp"] = now
                self._made = (now, made)
            return self._made[1]


class Server(ThreadingHTTPServer):
    """A server on a port of this machine (0: any free port), which no other machine can reach."""

    daemon_threads = True

    def __init__(self, live: Live, port: int = 0) -> None:
        super().__init__((HOST, port), Handler)
        self.live = live
        self.names = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    def handle_error(self, request: object, client_address: object) -> None:
        """Report errors, except that a browser closes its tab in the middle of an answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    """Answers only GET, and only under a name of this machine, since a foreign page may know the port."""

    def do_GET(self) -> None:
        server = cast(Server, self.server)
        if self.headers.get("Host") not in server.names:
            return self.send_error(HTTPStatus.FORBIDDEN)
        try:
            answer = server.live.answer(self.path.partition("?")[0])
        except (ValueError, OSError) as error:
            return self._send(HTTPStatus.OK, "text/html", WAITING % html.escape(str(error)))
        if answer is None:
            return self.send_error(HTTPStatus.NOT_FOUND)
        self._send(HTTPStatus.OK, *answer)

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        del format, args  # a line every two seconds is of no use


def serve(homes: Sequence[Path], port: int = 0) -> None:
    """Serve the report until Ctrl-C.  OSError: the port is taken."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # otherwise a closed tab would end the command
    with Server(Live(homes), port) as server:
        print(f"{server.address} shows what lies in {', '.join(map(str, homes))}; Ctrl-C ends it", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("closed")


def stamp(homes: Sequence[Path]) -> str:
    """Return a word that changes when what the report draws may have changed."""
    parts_of = (f"{path} {size} {when}" for home in homes for path, size, when in _watched(home, DEPTH))
    return sha256("\n".join(parts_of).encode()).hexdigest()[:16]


def _watched(home: Path, depth: int) -> Iterator[tuple[str, int, int]]:
    if home.is_file():
        yield _facts(str(home), home.stat())
    elif depth and home.is_dir():
        with os.scandir(home) as entries:
            inner = sorted(entries, key=lambda entry: entry.name)
        for entry in inner:
            if entry.is_dir() and entry.name[0] != ".":
                yield from _watched(Path(entry.path), depth - 1)
            elif entry.name in WATCHED or entry.name.endswith(".zip") or home.name == "evaluations":
                yield _facts(entry.path, entry.stat())


def _facts(path: str, status: os.stat_result) -> tuple[str, int, int]:
    return path, status.st_size, status.st_mtime_ns

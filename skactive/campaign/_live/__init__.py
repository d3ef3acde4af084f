"""The page for labelling, served to browsers of this machine while the model learns.

Three threads: the loop of the server, the desk, which answers pages, and the learner, the latter with a Campaign each.
An address holds a secret for its annotator, made of that of the file: the same after a restart, so that open pages go
on. Without it, or to another host or origin, nothing is answered, and nothing of a campaign is in a log.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import json
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from .._base import CampaignBase
from .._store import CampaignError
from ._desk import Desk, Message
from ._learner import Learner

try:
    import fcntl
except ImportError:  # Windows, where two servers of one campaign each hand out rows by themselves
    fcntl = None  # type: ignore[assignment]

LOCAL = "127.0.0.1"
MOST_BYTES = 2**20  # of what a page says at once
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox",  # a picture .svg could hold a script
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address is a secret
    "X-Content-Type-Options": "nosniff",
}


class Served:
    """A campaign in browsers, until `stop`: ``addresses`` by annotator."""

    def __init__(
        self, campaign: CampaignBase, annotators: Sequence[str], batch: int, overlap: int, host: str, port: int | None
    ) -> None:
        secret = campaign._store.secret
        self._secrets = {secret(f"label {name}"): name for name in annotators}
        self._socket = _listening(host, port, 20_000 + int(secret("port")[:4], 16) % 20_000)
        self._lock = _locked(campaign.path.with_name(f".skactive-{secret('lock')}"), self._socket)
        at = f"{host}:{self._socket.getsockname()[1]}".lower().removesuffix(":80")  # as browsers write it
        self._hosts = {at, at.replace(LOCAL, "localhost")}
        self.addresses = {name: f"http://{at}/{one}/" for one, name in self._secrets.items()}
        self._learner = Learner(campaign._twin(), batch)
        self._desk_thread = ThreadPoolExecutor(1, "skactive desk")
        made = self._desk_thread.submit(lambda: Desk(campaign._twin(), batch, overlap, self._learner))
        self._desk = made.result()
        routes = [Route("/{secret}/{what:path}", self._answer, methods=["GET", "POST"])]
        quiet: dict[str, Any] = {"log_config": None, "log_level": "critical", "server_header": False}
        quiet |= {"lifespan": "off", "ws": "none", "timeout_graceful_shutdown": 2}
        self._server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), **quiet))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._learner.start()
        self._thread.start()

    def wait(self) -> None:
        """Go on until Ctrl-C."""
        with suppress(KeyboardInterrupt):
            while self._thread.is_alive():
                self._thread.join(1)
        self.stop()

    def stop(self) -> None:
        """Serve no more. What pages were told to be saved is in the file."""
        self._server.should_exit = True
        self._learner.stop()
        self._thread.join()
        self._desk_thread.shutdown()
        self._lock.close()

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {address}" if name else address for name, address in self.addresses.items())

    # --- what is answered -------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Response:
        name = self._annotator(request)
        match request.method, request.path_params["what"].split("/") if name is not None else []:
            case "GET", [""]:
                page, policy = await self._at_desk(self._desk.page, name), "frame-ancestors 'none'"  # more in the page
                return Response(page, headers=HEADERS | {"Content-Security-Policy": policy}, media_type="text/html")
            case "POST", ["exchange"]:
                return await self._exchange(request, name)
            case "GET", ["picture", row, column] if row.isdecimal() and column.isdecimal():
                file = await self._at_desk(self._desk.picture, int(row), int(column))
                if file is not None:
                    return FileResponse(file, headers=HEADERS)
        return Response(status_code=404, headers=HEADERS)

    def _annotator(self, request: Request) -> str | None:
        """Whose address it is; None of a stranger, or where another site sends the browser here."""
        host, said = request.headers.get("host"), request.headers
        own = host in self._hosts and said.get("origin", f"http://{host}") == f"http://{host}"
        given = request.path_params["secret"].encode()
        known = (name for one, name in self._secrets.items() if hmac.compare_digest(one.encode(), given))
        return next(known, None) if own and said.get("sec-fetch-site") != "cross-site" else None

    async def _exchange(self, request: Request, name: Any) -> Response:
        said = request.headers  # no form of another site can send such ones
        n_bytes = int(said.get("content-length", MOST_BYTES))
        if said.get("content-type") != "application/json" or "origin" not in said or n_bytes >= MOST_BYTES:
            return Response(status_code=403, headers=HEADERS)
        try:
            message = Message.of(json.loads(await request.body()))
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError):
            return Response(status_code=400, headers=HEADERS)
        reply, status = {}, 200
        try:
            reply = await self._at_desk(self._desk.exchange, name, message)
        except Exception as error:  # the file is locked, gone or begun anew, say: the page keeps what it has
            reply, status = {"trouble": str(error)}, 503
        return Response(json.dumps(reply), status, HEADERS, "application/json")  # in ASCII, as cells hold any text

    async def _at_desk(self, do: Any, *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._desk_thread, do, *given)


def _listening(host: str, port: int | None, usual: int) -> socket.socket:
    """A socket at a port; by default at that of the campaign, or any other if that is taken."""
    try:
        if host == "0.0.0.0":  # pages are answered at the address in `Host` alone
            raise OSError(errno.EADDRNOTAVAIL, "it stands for all addresses")
        return socket.create_server((host, usual if port is None else port))
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return socket.create_server((host, 0))
        where = "`host` must be one address of this machine, and `port` free"
        raise CampaignError(f"{where}. Got {host!r} and {port}: {error.strerror}.") from error


def _locked(path: Path, opened: socket.socket) -> Any:
    """A file that is locked while it is open; the next command removes it. What was opened before is closed if not."""
    file = path.open("w")
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        opened.close()
        raise CampaignError("The campaign is open for labelling already: use that page, or stop it first.") from error
    except OSError:  # of a folder without locks
        pass
    return file

"""The page for labelling, served to browsers of this machine while the model learns.

Three threads: the loop of the server; the desk, which alone answers pages; the learner. Each has its own Campaign. An
address holds a secret that its annotator alone is told. Nothing is answered without it, to another host or origin, and
nothing is written but the campaign.
"""

from __future__ import annotations

import errno
import functools
import hmac
import html
import json
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from .._base import CampaignBase
from .._page import live_page, policy_of
from .._store import CampaignError
from ._desk import Desk, Given, Message
from ._learner import Learner

try:
    import fcntl
except ImportError:  # Windows, where two servers may have one campaign: both write to it, and each hands out by itself
    fcntl = None  # type: ignore[assignment]

MOST_BYTES = 2**20  # of what a page says at once
LOCAL = "127.0.0.1"

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the address is a secret
    "X-Content-Type-Options": "nosniff",
}


class Served:
    """A campaign that is served: its ``addresses``, by annotator, until `stop`."""

    def __init__(
        self,
        campaign: CampaignBase,
        annotators: Sequence[str] = (),
        *,
        batch: int = 20,
        overlap: int = 1,
        host: str = LOCAL,
        port: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self._campaign, self._folder, self._host = campaign._twin(), folder, host
        secrets = {campaign._store.secret(f"label {name}"): name for name in annotators or [""]}
        first = next(iter(secrets))
        self._lock = _locked(campaign.path.with_name(f".skactive-{campaign._store.secret('lock')}"), campaign.path)
        self._socket = _listening(host, port, 20_000 + int(first[:4], 16) % 20_000)
        at = f"{host}:{self._socket.getsockname()[1]}"
        self.addresses = {name: f"http://{at}/{secret}/" for secret, name in secrets.items()}
        self._secrets, self._hosts = secrets, {at, at.replace(LOCAL, "localhost")}
        self._learner = Learner(campaign._twin(), batch)
        self._thread = ThreadPoolExecutor(1, "skactive desk")
        self._desk: Desk = self._thread.submit(self._seated, batch, overlap).result()
        config = uvicorn.Config(
            self._application(),
            log_config=None,  # nothing of a campaign is in a log
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._learner.start()

    def _seated(self, batch: int, overlap: int) -> Desk:
        """The desk, in its own thread, and what the learner has to do first."""
        desk = Desk(self._campaign._twin(), batch, overlap, self._folder, self._learner.guess_of)
        seen, due = desk.campaign._store.ledger().seen, desk.due()
        self._learner.look() if due is None else self._learner.need(due, seen)
        return desk

    def run(self) -> None:
        """Serve until Ctrl-C."""
        with suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._socket])
        self._close()

    def start(self) -> Served:
        """Serve in the background."""
        threading.Thread(target=self._server.run, args=([self._socket],), daemon=True).start()
        return self

    def stop(self) -> None:
        """Serve no more. What pages were told to be saved is in the file."""
        self._server.should_exit = True
        self._close()

    def _close(self) -> None:
        self._thread.shutdown()
        self._socket.close()
        self._lock.close()

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {address}" if name else address for name, address in self.addresses.items())

    def _repr_html_(self) -> str:
        links = (f'<a href="{url}" target="_blank">{html.escape(n or url)}</a>' for n, url in self.addresses.items())
        return f"Label in a browser: {', '.join(links)}"

    # --- what is answered -------------------------------------------------------------------------

    def _application(self) -> Starlette:
        def guarded(answer: Callable[[Request, str], Awaitable[Response]]) -> Callable[..., Any]:
            @functools.wraps(answer)
            async def endpoint(request: Request) -> Response:
                annotator = self._annotator(request)
                response = Response(status_code=404) if annotator is None else await answer(request, annotator)
                response.headers.update({**HEADERS, **{k: v for k, v in response.headers.items() if k in HEADERS}})
                response.headers.setdefault("Content-Security-Policy", "default-src 'none'; sandbox")
                return response

            return endpoint

        return Starlette(
            routes=[
                Route("/{secret}/", guarded(self._page)),
                Route("/{secret}/exchange", guarded(self._exchange), methods=["POST"]),
                Route("/{secret}/picture/{row:int}/{column:int}", guarded(self._picture)),
            ]
        )

    def _annotator(self, request: Request) -> str | None:
        """Whose address it is; None of a stranger, or where another site sends the browser here."""
        if request.headers.get("host") not in self._hosts:  # else a name of another site could lead here
            return None
        if request.headers.get("origin", f"http://{request.headers['host']}") != f"http://{request.headers['host']}":
            return None
        if request.headers.get("sec-fetch-site", "none") == "cross-site":
            return None
        given = request.path_params["secret"].encode()
        return next((name for one, name in self._secrets.items() if hmac.compare_digest(one.encode(), given)), None)

    async def _page(self, request: Request, annotator: str) -> Response:
        page = live_page(**await self._at_desk(self._facts, annotator))
        return Response(
            page,
            media_type="text/html",
            headers={"Content-Security-Policy": f"{policy_of(live=True)}; frame-ancestors 'none'"},
        )

    def _facts(self, annotator: str) -> dict[str, Any]:
        campaign, counts = self._desk.campaign, self._desk._counts()
        return {
            "key": f"skactive-live-{campaign._store.secret(f'page {annotator}')}",
            "title": f"{campaign.path.stem}{f': {annotator}' if annotator else ''}",
            "id": campaign.id or "id",
            "target": campaign.target,
            "kind": counts["kind"],
            "labels": self._desk.labels(),
            "closed": campaign._settings["labels"] is not None,
            "columns": [str(name) for name in campaign._table().columns],
        }

    async def _exchange(self, request: Request, annotator: str) -> Response:
        if request.headers.get("content-type") != "application/json" or "origin" not in request.headers:
            return Response(status_code=403)  # a form of another site can send neither
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return Response(status_code=413)
        try:
            message = _message(json.loads(body))
        except (ValueError, TypeError, KeyError, RecursionError):
            return Response(status_code=400)
        try:
            return JSONResponse(await self._at_desk(self._exchanged, annotator, message))
        except CampaignError as error:  # the file is locked, gone or begun anew: the page keeps what it has
            return JSONResponse({"trouble": str(error)}, status_code=503)

    def _exchanged(self, annotator: str, message: Message) -> dict[str, Any]:
        reply = self._desk.exchange(annotator, message)
        seen = self._desk.campaign._store.ledger().seen
        self._learner.need(self._desk.due(reply.pop("short")), seen)
        return {**reply, "trouble": self._learner.trouble, "panel": self._learner.panel}

    async def _picture(self, request: Request, annotator: str) -> Response:
        place = request.path_params["row"], request.path_params["column"]
        file = await self._at_desk(self._desk.picture, *place)
        return Response(status_code=404) if file is None else FileResponse(file)

    async def _at_desk(self, do: Callable[..., Any], *given: Any) -> Any:
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(self._thread, do, *given)


def _message(said: dict[str, Any]) -> Message:
    """What a page says, of the types that it must have."""
    answers = [
        Given(_of(str, one["key"]), _of(int, one["row"]), _of(str, one["label"], None), float(one["age"]))
        for one in said["answers"]
    ]
    rows = [_of(int, row) for row in said["rows"]]
    return Message(_of(str, said["page"]), answers, rows, _of(int, said["more"]), said.get("leaves") is True)


def _of(kind: type, value: Any, *others: Any) -> Any:
    if type(value) is not kind and value not in others:
        raise TypeError
    return value


def _listening(host: str, port: int | None, usual: int) -> socket.socket:
    """A socket at a port, by default the usual one of this campaign, so that open pages go on; if taken, any other."""
    for one in (usual, 0) if port is None else (port,):
        try:
            return socket.create_server((host, one))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port is None and one:
                continue
            taken = error.errno == errno.EADDRINUSE
            what = (
                f"`port` {port} is taken: give another" if taken else f"`host` {host!r} cannot be listened at: {error}"
            )
            raise CampaignError(f"{what}, or leave it out.") from error
    raise AssertionError


def _locked(lock: Path, path: Path) -> Any:
    """A file that is locked as long as it is open; the next command removes it after a kill."""
    file = lock.open("w")
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise CampaignError(
            f"{os.fspath(path)!r} is open for labelling already. Use that page, or stop it first: two would hand out "
            "the same rows."
        ) from error
    return file

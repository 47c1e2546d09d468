"""uvicorn for members: with the peer's certificate, and with deadlines.

uvicorn shows an application no peer certificate and waits for ever for a request. Here the
certificate's SHA-256 is put into the state of each request, and every connection has deadlines:
ten seconds for the handshake and the headers, 16 KiB a second for a body, thirty seconds idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import resource
import secrets
import signal
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

_LOG = logging.getLogger("tacit_federation")

HEADER_SECONDS, KEEP_ALIVE_SECONDS = 10, 30
SLOWEST_BODY = 16 * 1024
"""Bytes a second of a body at the least."""
MOST_HEADERS = 16 * 1024
BUFFER = 32 * 1024
"""Bytes that every connection takes, before anybody knows whose it is."""


class MemberProtocol(H11Protocol):
    """HTTP/1.1 with the peer's certificate and deadlines."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Store the certificate, and begin to wait for headers."""
        channel = transport.get_extra_info("ssl_object")
        peer = channel.getpeercert(binary_form=True) if channel is not None else None
        shown = hashlib.sha256(peer).hexdigest() if peer else None
        self.app_state = {**self.app_state, "fingerprint": shown}
        self._deadline: asyncio.TimerHandle | None = None
        self._reading_body = False
        super().connection_made(transport)
        self._arm(HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Set the deadlines of headers and body."""
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._arm(HEADER_SECONDS)
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            return
        if not self.cycle.more_body:
            self._disarm()
        elif not self._reading_body:
            self._reading_body = True
            self._arm(HEADER_SECONDS + self._body_seconds())

    def _body_seconds(self) -> float:
        told = [value for name, value in self.headers or () if name == b"content-length"]
        length = int(told[0]) if told and told[0].isdigit() else 0
        return length / SLOWEST_BODY

    def on_response_complete(self) -> None:
        """Wait for the next request as uvicorn does, for thirty seconds."""
        self._disarm()
        self._reading_body = False
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._disarm()
        super().connection_lost(exc)

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._expire)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.abort()


class _Server(uvicorn.Server):
    """One listening port; its handshakes have a deadline, too."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        self.lifespan = self.config.lifespan_class(self.config)
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            kind: Any = config.http_protocol_class
            made: asyncio.Protocol = kind(
                config=config, server_state=self.server_state, app_state={}
            )
            return made

        self.servers = [
            await loop.create_server(
                protocol,
                sock=each,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=HEADER_SECONDS,
            )
            for each in sockets or ()
        ]
        self.started = True


class Listener:
    """An application on one port, over TLS 1.3."""

    def __init__(
        self, app: Any, context: ssl.SSLContext, host: str, port: int, *, most: int
    ) -> None:
        self.config = uvicorn.Config(
            app,
            http=MemberProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=MOST_HEADERS,
            limit_concurrency=most,
        )
        self.config.load()
        self.config.ssl = context
        self.socket = _listening(host, port)

    def load(self, keys: Path) -> None:
        """Use another certificate from the next connection on."""
        if self.config.ssl is not None:
            self.config.ssl.load_cert_chain(keys / "server.pem", keys / "server.key")


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, port))
    made.setblocking(False)
    return made


async def serve(listeners: Sequence[Listener], *, tick: Any, stop: asyncio.Event) -> None:
    """Serve until stopped; `tick` is called every second, in a thread."""
    _allow_many_files()
    # asyncio gives each connection, even one that never speaks, a buffer of 256 KiB.
    SSLProtocol.max_size = BUFFER
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a failed handshake is nobody's news
    servers = [_Server(each.config) for each in listeners]
    running = [
        asyncio.ensure_future(_run(server, listener))
        for server, listener in zip(servers, listeners, strict=True)
    ]
    failed = ""
    while not stop.is_set() and not any(task.done() for task in running):
        failed = await _ticked(tick, failed)
        try:
            await asyncio.wait_for(stop.wait(), timeout=1.0)
        except TimeoutError:
            continue
    for server in servers:
        server.should_exit = True
    await asyncio.gather(*running)
    for server in servers:
        for connection in list(server.server_state.connections):
            connection.transport.abort()
    await asyncio.sleep(0.1)  # what was aborted is closed by the loop, a moment later


async def _ticked(tick: Any, failed: str) -> str:
    """Do what is due; a failure, such as a full disk, is reported once and tried again."""
    try:
        await asyncio.to_thread(tick)
    except Exception as error:
        kind = type(error).__name__
        if kind != failed:
            _LOG.error("What was due failed (%s); it is tried again every second.", kind)
        return kind
    return ""


def _allow_many_files() -> None:
    """Raise the limit of descriptors for idle connections; other code needs some, too."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _run(server: _Server, listener: Listener) -> None:
    await server.startup(sockets=[listener.socket])
    await server.main_loop()
    await server.shutdown(sockets=[listener.socket])


def until_signalled(stop: asyncio.Event) -> None:
    """Stop at Ctrl-C and at SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


# Below those that systems give to outgoing connections, or one of these could take it meanwhile.
PORTS = range(20_000, 32_000)


def free_ports(count: int, among: Sequence[int] = PORTS) -> list[int]:
    """Return free ports of loopback."""
    ports: list[int] = []
    while len(ports) < count:
        port = secrets.choice(among)
        if port in ports:
            continue
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            ports.append(port)
    return ports

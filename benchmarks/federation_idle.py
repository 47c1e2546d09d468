"""Two thousand connections that say nothing while a site polls: who is kept out, at what cost.

    python -m benchmarks.federation_idle --connections 2000

A coordinator serves in a process of its own. Strangers connect and never begin a handshake;
then as many as fit within a deadline are opened by a member, whole handshakes, and never ask. A
site polls through both, and the script waits until the server has hung up on everybody.
"""

from __future__ import annotations

import argparse
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.federation_soak import (
    WIDE,
    make_coordinator,
    memory_mb,
    server_seconds,
    wait_for,
)
from tacit.errors import Unreachable
from tacit_federation import Site
from tacit_federation.certificates import client_context
from tacit_federation.transport import HEADER_SECONDS


def open_files(process: int) -> int:
    return sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())


def poll(site: Site) -> tuple[float, int]:
    """Poll until it works; return how long that took, and how many tries failed."""
    begun, failed = time.perf_counter(), 0
    while True:
        try:
            site.run_once()
        except Unreachable:
            failed += 1
        else:
            return time.perf_counter() - begun, failed


def strangers(place: tuple[str, int], count: int) -> list[socket.socket]:
    """Open connections that never begin a handshake."""
    return [socket.create_connection(place, timeout=60) for _ in range(count)]


def members(site: Site, url: str, place: tuple[str, int], count: int) -> list[socket.socket]:
    """Open connections of a member that never asks, for half a deadline at the most."""
    context = client_context(
        (site.server_folder(url) / "ca.pem").read_bytes(), site.server_folder(url)
    )
    end, made = time.monotonic() + HEADER_SECONDS / 2, []
    while len(made) < count and time.monotonic() < end:
        plain = socket.create_connection(place, timeout=60)
        made.append(context.wrap_socket(plain, server_hostname=place[0]))
    return made


def try_it(kind: str, idle: list[socket.socket], site: Site, server: int, before: int) -> None:
    """Poll beside idle connections; then wait until the server has closed all of them."""
    begun, cpu = time.monotonic(), server_seconds(server)
    held = 0
    while time.monotonic() < begun + 2:  # the server takes them one after the other
        held = max(held, open_files(server) - before)
        time.sleep(0.05)
    seconds, failed = poll(site)
    while open_files(server) > before + 2:
        time.sleep(0.5)
    took = time.monotonic() - begun
    print(
        f"{len(idle)} {kind}: {held} held open; a poll took {seconds:.2f} s "
        f"({failed} tries failed before); all were hung up on "
        f"after {took:.0f} s; {server_seconds(server) - cpu:.1f} s of server CPU; "
        f"{memory_mb(server):.0f} MB at the most",
        flush=True,
    )
    for each in idle:
        each.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=2000)
    asked = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    folder = Path(tempfile.mkdtemp(prefix="tacit-idle-"))
    place = make_coordinator(folder / "coordinator")
    code = f"from benchmarks.federation_soak import *; serve_for_ever({str(place.folder)!r})"
    server = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_for(place.settings.enrol_port)
        sites = [Site.create(folder / name, budget=WIDE, unit="patient") for name in "ab"]
        for number, site in enumerate(sites):
            site.join(place.invite(f"site-{number}"))
        print(f"a poll alone took {poll(sites[0])[0]:.2f} s", flush=True)
        door, before = ("127.0.0.1", place.settings.port), open_files(server.pid)
        idle = strangers(door, asked.connections)
        try_it("strangers", idle, sites[0], server.pid, before)
        idle = members(sites[1], place.settings.url, door, asked.connections)
        try_it("of a member", idle, sites[0], server.pid, before)
        print(f"a poll afterwards took {poll(sites[0])[0]:.2f} s")
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()

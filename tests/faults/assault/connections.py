"""Attacks by connections: too many to the broker, and half-sent requests to every service."""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from itertools import cycle

from tests.contract.slow import SlowRequest, slow_requests
from tests.faults.assault.attacker import Aim, Counts, RawConnection, connected, count_refusals, paced

ATTEMPTS_PER_SECOND = 250.0
SUBSCRIPTIONS = 200
"""Of each connection that is accepted; an agent may have 64."""
OPENED_PER_SECOND = 240.0
"""Half-sent requests, to all services together."""
DRIP_SECONDS = 1.0
_CHUNK = 1 << 16
Run = Callable[[Counts], None]


def connects(aim: Aim) -> Run:
    """Connections with the agent's credentials, and some without any that send nothing; each subscribes as long as it
    lives."""
    subscriptions = b"".join(b"SUB _INBOX.%b.%d %d\r\n" % (aim.user.encode(), n, n) for n in range(1, SUBSCRIPTIONS))

    def run(counts: Counts) -> None:
        allow_descriptors()
        kept: deque[socket.socket] = deque()
        for number in paced(ATTEMPTS_PER_SECOND, aim.seconds):
            try:
                kept.append(connected(aim.nats) if number % 4 == 3 else RawConnection(aim, counts).connect())
            except OSError:
                counts.answers["not accepted"] += 1
                continue
            counts.add(0)
            if len(kept) > SUBSCRIPTIONS // 4:
                _subscribe(kept.popleft(), subscriptions, counts, kept)

    return run


def _subscribe(connection: socket.socket, subscriptions: bytes, counts: Counts, kept: deque[socket.socket]) -> None:
    """What the broker has answered is counted; a connection that it keeps subscribes, and is kept."""
    try:
        data = connection.recv(_CHUNK, socket.MSG_DONTWAIT)
        count_refusals(data, counts)
        if data and b"-ERR" not in data:
            connection.sendall(subscriptions)
            counts.add(len(subscriptions), 0)
            kept.append(connection)
            return
    except BlockingIOError:
        kept.append(connection)
        return
    except OSError:
        counts.answers["connection ended"] += 1
    connection.close()


def stalls(aim: Aim) -> Run:
    """Half-sent and slow requests of every route to every service, all kept open until the service ends them."""

    def run(counts: Counts) -> None:
        allow_descriptors()
        with selectors.DefaultSelector() as selector:
            drips: deque[tuple[float, socket.socket, bytes]] = deque()
            forms = cycle([(url, slow) for slow in slow_requests() for url in aim.services.values()])
            for _ in paced(OPENED_PER_SECOND, aim.seconds):
                url, slow = next(forms)
                _open(url, slow, selector, drips, counts)
                _drip(drips, counts)
                for key, _ in selector.select(0):
                    _read(key.fileobj, selector, counts)
            for key in list(selector.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()

    return run


def _open(
    url: str,
    slow: SlowRequest,
    selector: selectors.BaseSelector,
    drips: deque[tuple[float, socket.socket, bytes]],
    counts: Counts,
) -> None:
    try:
        connection = connected(url)
        connection.sendall(slow.first)
    except OSError:
        counts.answers["not accepted"] += 1
        return
    counts.add(len(slow.first))
    connection.setblocking(False)
    selector.register(connection, selectors.EVENT_READ)
    if slow.drip:
        drips.append((time.monotonic() + DRIP_SECONDS, connection, slow.drip))


def _drip(drips: deque[tuple[float, socket.socket, bytes]], counts: Counts) -> None:
    while drips and drips[0][0] <= time.monotonic():
        _, connection, part = drips.popleft()
        try:
            connection.send(part)
        except OSError:
            continue  # the service has ended it
        counts.add(len(part), 0)
        drips.append((time.monotonic() + DRIP_SECONDS, connection, part))


def _read(connection: object, selector: selectors.BaseSelector, counts: Counts) -> None:
    """Count an answer, and forget a connection that the service has ended."""
    assert isinstance(connection, socket.socket)
    try:
        data = connection.recv(_CHUNK)
    except BlockingIOError:
        return
    except OSError:
        data = b""
    if data:
        counts.answers[data.split(b"\r\n", 1)[0].decode(errors="replace")] += 1
        return
    counts.answers["closed by the service"] += 1
    selector.unregister(connection)
    connection.close()


def allow_descriptors() -> None:
    """As many open sockets as this process may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

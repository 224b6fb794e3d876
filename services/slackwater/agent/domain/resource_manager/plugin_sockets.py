"""The sockets in the directory of plugins, and what has changed between two readings of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MANAGER_SOCKET = "kubelet.sock"
"""The published name, at which plugins register; the manager's own."""
SocketIdentity = tuple[int, int]
"""Inode and time of making: a socket that another process has bound under the same name is another one."""
Sockets = Mapping[str, SocketIdentity]


@dataclass(frozen=True, slots=True)
class SocketChanges:
    """Names in their order. A socket that was replaced is in both."""

    gone: tuple[str, ...] = ()
    appeared: tuple[str, ...] = ()


def socket_changes(before: Sockets, after: Sockets) -> SocketChanges:
    """Returns what went and what came since the reading before."""
    return SocketChanges(
        tuple(sorted(name for name, identity in before.items() if after.get(name) != identity)),
        tuple(sorted(name for name, identity in after.items() if before.get(name) != identity)),
    )

"""Roles, and the principals that hold them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal


class Role(StrEnum):
    """A caller's rights. The first three include each other in order; `agent` is separate and not a
    user's role.
    """

    VIEWER = "viewer"
    """Reads everything."""
    OPERATOR = "operator"
    """Also changes policies and replays dead letters."""
    ADMIN = "admin"
    """Also performs irreversible operations."""
    AGENT = "agent"
    """Acts for one node, whose name is that of the principal."""

    def allows(self, needed: Needed) -> bool:
        """Returns whether this role satisfies `needed`."""
        if needed == OPEN or self is needed:
            return True
        return self in _RANK and needed in _RANK and _RANK.index(self) > _RANK.index(needed)


_RANK = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)

OPEN: Final = "open"
"""No authentication: probes, which reveal only a status."""
Needed = Role | Literal["open"]
"""The requirement of a route or RPC. There is no default: each declares it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. `name` appears in records and logs; for an agent it is its node."""

    name: str
    role: Role


EVERYBODY = Principal("local", Role.ADMIN)
"""The caller where no authentication is configured: on loopback without a token."""
STRANGER = Principal("anonymous", Role.VIEWER)
"""The caller over TLS without tokens or client certificates: encryption does not identify the
caller.
"""
CERTIFIED = Principal("client certificate", Role.VIEWER)
"""The caller with a client certificate whose subject has no name, where no entry grants more."""

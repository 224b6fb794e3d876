"""Who may do what: roles, and the principal that holds one. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal


class Role(StrEnum):
    """What a caller may do. The first three contain each other; `agent` stands apart and is no user's role."""

    VIEWER = "viewer"
    """Reads everything."""
    OPERATOR = "operator"
    """Also changes policies and replays dead letters."""
    ADMIN = "admin"
    """Also does what cannot be undone."""
    AGENT = "agent"
    """Speaks for one node, whose name is that of the principal."""

    def allows(self, needed: Needed) -> bool:
        """Whether a holder of this role may do what needs `needed`."""
        if needed == OPEN or self is needed:
            return True
        return self in _RANK and needed in _RANK and _RANK.index(self) > _RANK.index(needed)


_RANK = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)

OPEN: Final = "open"
"""Needs nothing: probes, which learn nothing but a word."""
Needed = Role | Literal["open"]
"""What a route or an RPC asks of its caller. There is no default: each says it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. `name` is what records and logs say; of an agent it is its node."""

    name: str
    role: Role


EVERYBODY = Principal("local", Role.ADMIN)
"""Who calls where nobody has to prove anything: on loopback without a token."""
STRANGER = Principal("anonymous", Role.VIEWER)
"""Who calls over TLS where no token and no client certificate is asked for: encryption says nothing of the caller."""
CERTIFIED = Principal("client certificate", Role.VIEWER)
"""Who calls with a certificate of the client CA, whose subject has no name, where nothing says who may do more."""

"""Proves the node of an agent by the token of its pod, which the API server reviews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from slackwater.model.errors import InvalidInput

TOKEN_REVIEWS: Final = "apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
AUDIENCE: Final = "slackwater"
"""Of the tokens of agents, so that one made for the API server is none here, and the other way round."""
NODE: Final = "authentication.kubernetes.io/node-name"


class Reviewer(Protocol):
    """The API server, asked for what it does not store."""

    async def ask(self, path: str, review: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to a review (of an account, of rights, of a token). Raises the errors of its port."""
        ...


class ReviewAgents:
    """`account` is the agents' service account, as `system:serviceaccount:NAMESPACE:NAME`."""

    def __init__(self, server: Reviewer, account: str) -> None:
        self._server = server
        self._account = account

    async def __call__(self, token: str) -> str:
        """Returns the node of the pod that has this token.

        Raises InvalidInput for a token that is not an agent's, and what the API server answers.
        """
        if not token:
            raise InvalidInput("identity: has no token", field="identity")
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        answer = await self._server.ask(TOKEN_REVIEWS, review)
        status: Mapping[str, Any] = answer.get("status") or {}
        audiences: Sequence[str] = status.get("audiences") or []
        if not status.get("authenticated") or AUDIENCE not in audiences:
            raise InvalidInput("identity: the cluster does not accept the token", field="identity")
        user: Mapping[str, Any] = status.get("user") or {}
        if user.get("username") != self._account:
            raise InvalidInput(f"identity: is not of {self._account}", field="identity")
        extra: Mapping[str, Sequence[str]] = user.get("extra") or {}
        nodes = extra.get(NODE) or []
        if len(nodes) != 1 or not nodes[0]:
            raise InvalidInput("identity: is of no pod on a node", field="identity")
        return str(nodes[0])

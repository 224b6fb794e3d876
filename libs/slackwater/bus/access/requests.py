"""Requests of agents for credentials, and the answers, as JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slackwater.bus.access.keys import KeyKind, is_public_key
from slackwater.model.bounds import Name
from slackwater.model.errors import InvalidInput

MOST_BYTES = 16_384


class AccessRequest(BaseModel):
    """A node and the public key that its agent has made. `identity` is the token of its pod, where a cluster proves
    the node.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: Name
    public_key: str = Field(max_length=60)
    identity: str = Field(default="", max_length=8192)


class AccessAnswer(BaseModel):
    """The signed token, or why there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: str = Field(default="", max_length=8192)
    error: str = Field(default="", max_length=500)


def parse_request(body: bytes) -> AccessRequest:
    """Raises InvalidInput; the message never contains a token."""
    try:
        request = AccessRequest.model_validate_json(body[: MOST_BYTES + 1])
    except ValidationError as error:
        fields = sorted({".".join(map(str, problem["loc"])) for problem in error.errors()})
        raise InvalidInput(f"this is no request for access: {', '.join(fields)}", field="body") from None
    if not is_public_key(request.public_key, KeyKind.USER):
        raise InvalidInput("public_key: is no public key of a user", field="public_key")
    return request


def parse_answer(body: bytes) -> AccessAnswer:
    """Returns the answer; one that cannot be read is an error."""
    try:
        return AccessAnswer.model_validate_json(body)
    except ValidationError:
        return AccessAnswer(error="the answer cannot be read")

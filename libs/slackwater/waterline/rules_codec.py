"""Encodes a node's rules as JSON, which ensurance sends and a disconnected agent uses."""

from __future__ import annotations

import json
from typing import Any

from slackwater.waterline.cycle import Options
from slackwater.waterline.cycle_replay import OPTIONS, POLICIES, policies_json
from slackwater.waterline.policies.values import Policies


def encode_rules(policies: Policies, options: Options) -> bytes:
    """Returns the rules as JSON; default values are omitted."""
    parts = {
        "policies": policies_json(policies),
        "options": OPTIONS.dump_python(options, mode="json", exclude_defaults=True),
    }
    return json.dumps(parts, separators=(",", ":")).encode()


def decode_rules(parts: Any) -> tuple[Policies, Options]:
    """Returns the rules of a JSON value. Raises pydantic.ValidationError or ValueError for any
    other value.
    """
    if not isinstance(parts, dict) or not parts.keys() >= {"policies", "options"}:
        raise ValueError("rules are an object with policies and options")
    return POLICIES.validate_python(parts["policies"]), OPTIONS.validate_python(parts["options"])

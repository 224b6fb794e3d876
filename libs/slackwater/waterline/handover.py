"""The rules of a node as one string: what ensurance hands over, and what an agent goes on with when it is cut off."""

from __future__ import annotations

import json

from slackwater.waterline.cycle import Options
from slackwater.waterline.policies.values import Policies
from slackwater.waterline.replaying import OPTIONS, POLICIES


def written(policies: Policies, options: Options) -> str:
    """What has its default is left out."""
    parts = {
        "policies": POLICIES.dump_python(policies, mode="json", exclude_defaults=True),
        "options": OPTIONS.dump_python(options, mode="json", exclude_defaults=True),
    }
    return json.dumps(parts, separators=(",", ":"))


def read(text: str) -> tuple[Policies, Options]:
    """Raises pydantic.ValidationError or ValueError for what no version of ours has written."""
    parts = json.loads(text)
    if not isinstance(parts, dict) or not parts.keys() >= {"policies", "options"}:
        raise ValueError("rules are an object with policies and options")
    return POLICIES.validate_python(parts["policies"]), OPTIONS.validate_python(parts["options"])

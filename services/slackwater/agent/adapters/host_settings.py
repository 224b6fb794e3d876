"""SLACKWATER_AGENT_HOST_APPLICATIONS: a JSON list of {name, tier, qos, cgroup}."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError
from pydantic_settings import NoDecode

from slackwater.agent.domain.host_apps import HostApplication, host_application, refuse_overlaps
from slackwater.model.json_text import parse_json_text
from slackwater.model.tiers import QoSClass, Tier

_EXAMPLE = '[{"name": "nginx", "tier": "prod", "cgroup": "system.slice/nginx.service"}]'


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    cgroup: str
    tier: Tier | None = None
    qos: QoSClass | None = None


def host_applications(setting: Any) -> tuple[HostApplication, ...]:
    """From what stands in the environment, or is handed over. Raises ValueError that says what is allowed."""
    if isinstance(setting, str):
        try:
            setting = parse_json_text(setting)
        except ValueError as error:
            raise ValueError(f"not JSON ({error}); a list is allowed, like {_EXAMPLE}") from None
    if isinstance(setting, str | bytes) or not isinstance(setting, Sequence):
        raise ValueError(f"a list is allowed, like {_EXAMPLE}")
    apps = tuple(one if isinstance(one, HostApplication) else _read(place, one) for place, one in enumerate(setting))
    refuse_overlaps(apps)
    return apps


def _read(place: int, document: Any) -> HostApplication:
    try:
        entry = _Entry.model_validate(document)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'entry'}: {each['msg']}" for each in error.errors())
        raise ValueError(f"entry {place}: {problems}; allowed: name, cgroup, tier, qos, like {_EXAMPLE}") from None
    return host_application(entry.name, entry.cgroup, entry.tier, entry.qos)


HostApplications = Annotated[
    tuple[HostApplication, ...],
    NoDecode,
    BeforeValidator(host_applications),
    PlainSerializer(lambda apps: [{"name": app.name, "tier": app.tier, "cgroup": app.cgroup} for app in apps]),
]

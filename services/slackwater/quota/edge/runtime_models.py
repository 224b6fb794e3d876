"""Runtimes in the answer of a dry run of ElasticQuotas."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from slackwater.quota.domain.runtime_preview import RuntimeChange


def preview_parameters() -> None:
    """A dry run takes no options."""


class RuntimeTried(BaseModel):
    """One quota in one resource: milli-cores of a CPU, else its unit. Null: the quota is not there."""

    quota: str
    resource: str
    before: int | None
    after: int | None
    used: int
    owed: int = Field(description="What its claims would have to give back.")


class RuntimesTried(BaseModel):
    """The quotas whose runtime would change, with what is requested now."""

    quotas: list[RuntimeTried]

    @classmethod
    def of(cls, changes: Sequence[RuntimeChange]) -> RuntimesTried:
        return cls(
            quotas=[
                RuntimeTried(
                    quota=change.quota,
                    resource=change.resource,
                    before=change.before,
                    after=change.after,
                    used=change.used,
                    owed=change.owed,
                )
                for change in changes
            ]
        )

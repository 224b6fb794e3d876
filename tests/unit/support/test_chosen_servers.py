"""One variable says which servers the tests run against."""

from __future__ import annotations

import pytest
from tests.support.servers import Servers, chosen

from slackwater.model.errors import Misconfigured


def test_nothing_said_means_the_wheels() -> None:
    assert chosen("") == chosen("embedded") == Servers("embedded")


def test_containers_and_given_addresses() -> None:
    assert chosen("containers") == Servers("containers")
    given = chosen("postgresql://admin@db/postgres,nats://bus:4222")
    assert given == Servers("given", "postgresql://admin@db/postgres", "nats://bus:4222")


@pytest.mark.parametrize(
    "value", ["docker", "postgresql://a@b/c", "nats://b,postgresql://a@b/c", "postgresql://a@b/c,"]
)
def test_anything_else_is_refused_with_what_is_allowed(value: str) -> None:
    with pytest.raises(Misconfigured, match="embedded, containers, or two addresses"):
        chosen(value)

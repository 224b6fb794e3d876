from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import pytest
from fastapi import APIRouter

from slackwater.cli.service_host import hosting, sole_failure
from slackwater.cli.steps import Steps
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.runtime.http import HttpServer
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings


class Refusing:
    """A service that cannot work on this machine."""

    name = "refusing"

    async def run(self, started: Callable[[], None]) -> None:
        raise Misconfigured("no cgroups here")

    async def checks(self) -> Sequence[Check]:
        return ()

    def routers(self) -> Sequence[APIRouter]:
        return ()


async def test_a_service_that_cannot_work_here_ends_the_start_with_its_own_words() -> None:
    settings = HttpSettings(port=0)
    with pytest.raises(Misconfigured, match="no cgroups here"):
        async with hosting(HttpServer(settings), settings, [Refusing()], Steps(io.StringIO()), beside=()):
            pytest.fail("it was said to be up")


async def test_a_failure_of_the_block_itself_comes_out_as_itself() -> None:
    settings = HttpSettings(port=0)
    with pytest.raises(NotFound, match="gone"):
        async with hosting(HttpServer(settings), settings, [], Steps(io.StringIO()), beside=()):
            raise NotFound("gone")


def test_several_failures_stay_together() -> None:
    with pytest.raises(ExceptionGroup), sole_failure():
        raise ExceptionGroup("two", [NotFound("a"), NotFound("b")])
    with pytest.raises(NotFound, match="a"), sole_failure():
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [NotFound("a")])])

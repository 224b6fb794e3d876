"""Withdraws from all nodes what Slackwater has written to their status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from slackwater.apiserver.port import ApiServer
from slackwater.apiserver.records import NODES, ClusterNode
from slackwater.model.errors import Conflict, NotFound

PAGE_SIZE: Final = 500
WATCH_SECONDS: Final = 3.0
"""A service that still runs writes again within this time."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """`nodes` had amounts of Slackwater; `written_again` have them again after the withdrawal."""

    nodes: tuple[str, ...]
    written_again: tuple[str, ...] = ()


async def withdraw_all(server: ApiServer, *, dry_run: bool = False, wait_seconds: float = WATCH_SECONDS) -> Withdrawal:
    """Withdraw from every node, then check that nothing writes again. With `dry_run` only list the nodes.

    Raises Unavailable and Misconfigured; a repetition goes on where it ended.
    """
    nodes = [node async for node in _written_to(server)]
    names = tuple(node.key for node in nodes)
    if dry_run or not nodes:
        return Withdrawal(names)
    for node in nodes:
        try:
            await server.apply_lent(node.key, node.uid, {}, force=False)
        except (NotFound, Conflict):  # deleted meanwhile, or created anew without any amounts
            continue
    await asyncio.sleep(wait_seconds)
    return Withdrawal(names, tuple([node.key async for node in _written_to(server)]))


async def _written_to(server: ApiServer) -> AsyncIterator[ClusterNode]:
    page = ""
    while True:
        answer = await server.list_page(NODES, PAGE_SIZE, page)
        for node in answer.items:
            if node.owned:
                yield node
        page = answer.next_page
        if not page:
            return

"""Withdraws what Slackwater has written to a cluster: amounts and cordons of nodes, and what applies profiles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from slackwater.apiserver.objects import MUTATION_BINDINGS, MUTATIONS, WEBHOOKS, ObjectRecord
from slackwater.apiserver.port import ApiServer, KindNotServed
from slackwater.apiserver.records import NODES, ClusterNode, WatchedKind
from slackwater.apiserver.resource_names import OWN_NAMES
from slackwater.model.errors import Conflict, NotFound
from slackwater.profiles.policy import NAME as POLICY
from slackwater.profiles.webhook import NAME as WEBHOOK

PAGE_SIZE: Final = 500
WATCH_SECONDS: Final = 3.0
"""A service that still runs writes again within this time."""
TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """`nodes` had amounts or a cordon of Slackwater; `policies` are the deleted objects of profiles.
    `written_again` have something again after the withdrawal. `left` are own names that another manager has written:
    they stay."""

    nodes: tuple[str, ...]
    policies: tuple[str, ...] = ()
    written_again: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


async def withdraw_all(server: ApiServer, *, dry_run: bool = False, wait_seconds: float = WATCH_SECONDS) -> Withdrawal:
    """Withdraw from every node, then check that nothing writes again. With `dry_run` only list the nodes.

    Raises Unavailable and Misconfigured; a repetition goes on where it ended.
    """
    left = list[str]()
    nodes, policies = [node async for node in _written_to(server, left)], await _policies(server)
    names = tuple(node.key for node in nodes)
    titles = tuple(f"{kind.plural}/{policy.key}" for kind, policy in policies)
    if dry_run or not (nodes or policies):
        return Withdrawal(names, titles, left=tuple(left))
    await _clean(server)
    for kind, policy in policies:
        await server.delete_object(kind, policy.key, policy.uid)
    await asyncio.sleep(wait_seconds)
    again = [node.key async for node in _written_to(server)]
    return Withdrawal(names, titles, (*again, *(policy.key for _, policy in await _policies(server))), tuple(left))


async def _policies(server: ApiServer) -> list[tuple[WatchedKind[ObjectRecord], ObjectRecord]]:
    """The policy of profiles and its binding, which is deleted first, and the webhook."""
    found = []
    for kind in (MUTATION_BINDINGS, MUTATIONS):
        page = ""
        while True:
            try:
                answer = await server.list_page(kind, PAGE_SIZE, page)
            except KindNotServed:
                break
            found += [(kind, item) for item in answer.items if item.key == POLICY]
            page = answer.next_page
            if not page:
                break
    webhook = await server.read_object(WEBHOOKS, WEBHOOK)
    return [*found, *([] if webhook is None else [(WEBHOOKS, webhook)])]


async def _clean(server: ApiServer) -> None:
    """Remove amounts and taint from every node. A node that another writes at the same time is read and written
    again."""
    for _ in range(TRIES):
        conflicts = 0
        async for node in _written_to(server):
            try:
                after = await server.apply_lent(node, {}, force=False)
                if after.cordon is not None:
                    await server.set_cordon(after, None)
            except NotFound:
                continue
            except Conflict:
                conflicts += 1
        if not conflicts:
            return


async def _written_to(server: ApiServer, left: list[str] | None = None) -> AsyncIterator[ClusterNode]:
    """The nodes that have something of Slackwater; `left` gets what belongs to others on any node."""
    page = ""
    while True:
        answer = await server.list_page(NODES, PAGE_SIZE, page)
        for node in answer.items:
            if left is not None:
                left += [
                    f"{name} of node {node.key} ({manager or 'an unknown manager'})"
                    for name, manager in node.foreign
                    if name in OWN_NAMES
                ]
            if node.owned or node.residual or node.cordon is not None:
                yield node
        page = answer.next_page
        if not page:
            return

"""Shell completion of kinds and of names that a running instance knows; silent where there is none."""

from __future__ import annotations

from collections.abc import Callable

import typer

from slackwater.cli.list_kinds import ListKind, all_kinds, kind_of
from slackwater.model.errors import SlackwaterError

SECONDS = 1.0
"""A shell waits for the completion: a server that does not answer in this time gives no names."""


def complete_noun(begun: str) -> list[str]:
    """The kinds with this prefix; after a `/`, the kind's names."""
    noun, slash, name = begun.partition("/")
    if slash:
        return [f"{noun}/{each}" for each in names_of(noun) if each.startswith(name)]
    return [kind.names[0] for kind in all_kinds() if kind.names[0].startswith(begun.lower())]


def complete_name(context: typer.Context, begun: str) -> list[str]:
    """The names of the kind that the line names before."""
    what = context.params.get("what") or ""
    return [] if "/" in what else [name for name in names_of(what) if name.startswith(begun)]


def complete_subject(begun: str) -> list[str]:
    """What `why` explains: `node/NAME`, `pod/NAME`, `decision/ID`, `quota/NAME`, `claim/ID` or `migration/NAME`."""
    noun, slash, _ = begun.partition("/")
    nouns = ("node", "pod", "decision", "quota", "claim", "migration")
    if slash:
        return complete_noun(begun) if noun in nouns else []
    return [f"{noun}/" for noun in nouns if noun.startswith(begun)]


def _names(noun: str) -> Callable[[str], list[str]]:
    return lambda begun: [name for name in names_of(noun) if name.startswith(begun)]


def complete_node(begun: str) -> list[str]:
    """The names of nodes."""
    return _names("nodes")(begun)


def complete_pool(begun: str) -> list[str]:
    """The names of pools."""
    return _names("pools")(begun)


def names_of(noun: str) -> list[str]:
    """The names of a kind's items, sorted; none for another word or without a running instance."""
    try:
        kind = kind_of(noun)
        return _read_names(kind)
    except (SlackwaterError, OSError):
        return []


def _read_names(kind: ListKind) -> list[str]:
    from slackwater.cli.client import running_instance
    from slackwater.cli.list_reader import whole

    with running_instance(SECONDS) as reader:
        params = {"limit": 500} if kind.path == "/v1/decisions" else None
        items = reader.get(kind.path, params)["items"] if params else whole(reader, kind.path)["items"]
        return sorted({kind.key(item) for item in items})

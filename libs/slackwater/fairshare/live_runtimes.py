"""The runtimes of a tree for one set of requests, each computed when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slackwater.fairshare.live_ledger import LiveLedger
from slackwater.fairshare.tree import Amounts, Quota


class LiveRuntimes(Mapping[str, Amounts]):
    """Rests on a ledger that goes on with the next requests: `complete` comes before that, if this is still held."""

    def __init__(self, quotas: Mapping[str, Quota], live: LiveLedger) -> None:
        self._quotas = quotas
        self._live = live
        self._found: dict[str, Amounts] = {}

    def __getitem__(self, name: str) -> Amounts:
        found = self._found.get(name)
        if found is None:
            if name not in self._quotas:
                raise KeyError(name)
            found = self._found[name] = self._live.runtime(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._quotas)

    def __len__(self) -> int:
        return len(self._quotas)

    def complete(self) -> None:
        """Compute what was not asked for yet."""
        for name in self._quotas:
            self[name]

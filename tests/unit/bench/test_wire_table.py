"""The table of messages in docs/reference/figures.md: bytes, messages and readers are those of the load generator."""

from __future__ import annotations

import re
from pathlib import Path

from tests.bench.wire import PODS, fixed_parts

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "figures.md"
ROW = re.compile(r"^\| `(\w+\.\w+)` \| (\d+) \| ([\d,]+) \| (\d+) \| ([^|]+) \|$", re.MULTILINE)


def test_the_table_has_what_the_generator_sends() -> None:
    shown = {
        (event, int(pods)): (
            int(size.replace(",", "")),
            int(messages),
            tuple(reader.split()[0] for reader in readers.split(",")),
        )
        for event, pods, size, messages, readers in ROW.findall(PAGE.read_text())
    }
    assert shown == {(event, pods): parts for pods in PODS for event, parts in fixed_parts(pods).items()}

"""One of something is no plural: the nouns themselves, and that no text has `1 nodes`."""

from __future__ import annotations

from slackwater.cli.offer_columns import sums_line
from slackwater.cli.simulate import heading
from slackwater.cli.strategy_columns import tried_lines
from slackwater.model.plurals import counted, plural


def test_only_one_is_singular() -> None:
    assert [counted(count, "node") for count in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    assert counted(1, "node is", "nodes are") == "1 node is"
    assert counted(3, "node is", "nodes are") == "3 nodes are"
    assert (plural(1.0, "hour"), plural(0.5, "hour")) == ("hour", "hours")


def test_one_node_is_no_nodes_where_it_was() -> None:
    nothing = {"cpu_milli": 0, "memory_bytes": 0}
    sums = {"nodes": 1, "offering": 1, "degraded": 0, "overoffered": 0}
    said = sums_line({"pool": "web", "sums": sums | dict.fromkeys(("capacity", "batch", "mid"), nothing)})
    assert said.startswith("pool web: 1 of 1 node offers, 0 degraded;")
    history = {"source": "usage.csv", "nodes": 1, "hours": 1.0, "start": None, "period_seconds": 300.0, "notes": []}
    assert heading(history) == ["usage.csv: 1 node, 1 hour, offers every 300 s"]
    tried = {"pools": [], "nodes": [], "left_out": 1, "unknown": 1}
    assert list(tried_lines(tried)) == ["and 1 node with smaller changes or none", "1 node has no measurements yet"]

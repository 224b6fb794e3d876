"""`slackwater why pod/…` and the arithmetic of `why decision/…`, against a console that tells the story."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from rich.console import Console
from tests.support.story import SURGE, identifier

from slackwater.cli.decision_text import LISTED, exact, print_candidates, print_pod, verdict

Run = Callable[..., Result]
THROTTLE = identifier("edge-7", "throttle", SURGE[0] + 25)


def well(result: Any) -> str:
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def test_a_pod_is_shown_with_its_last_decision_and_a_table_of_all(run: Run) -> None:
    text = well(run("why", f"pod/{identifier('edge-7', 'encode-video-1')}"))
    lines = text.splitlines()
    assert lines[0].startswith("pod media/encode-video-1 on node edge-7, uid ")
    assert lines[1].startswith("batch, BE, uses ")
    assert "given back (restore complete, rule prod-cpu-pressure, by ensurance)" in text
    assert " of 2, keys 1 1 5500" in text
    assert text.count("throttled ") >= 2
    assert THROTTLE in text


def test_a_pod_that_was_only_a_candidate_is_explained(run: Run) -> None:
    text = well(run("why", "pod/checkout-0", "--node", "edge-7"))
    assert "spared: tier prod is protected" in text
    assert "it was not a candidate" in text


def test_a_name_of_several_pods_is_refused_with_all_of_them(run: Run) -> None:
    refused = run("why", "pod/checkout-0")
    assert refused.exit_code == 2
    assert "means several pods" in refused.stderr
    assert "shop/checkout-0 on edge-7" in refused.stderr
    well(run("why", "po/checkout-0", "--node", "edge-7", "-n", "shop"))


def test_a_pod_may_be_named_with_its_namespace(run: Run) -> None:
    text = well(run("why", "pod/media/encode-video-1", "--node", "edge-7"))
    assert text.startswith("pod media/encode-video-1 on node edge-7")
    assert "did you mean" in run("why", "pod/shop/encode-video-1").stderr
    assert "name one namespace" in run("why", "pod/media/encode-video-1", "-n", "shop").stderr
    for wrong in ("pod/a/b/c", "pod//b", "pod/a/"):
        assert "pod/NAME or pod/NAMESPACE/NAME" in run("why", wrong).stderr


def test_an_unknown_pod_and_a_wrong_word_are_refused(run: Run) -> None:
    assert "did you mean 'encode-video-0'" in run("why", "pod/encode-vide-0").stderr
    assert "node/NAME, pod/NAME, decision/ID, quota/NAME, claim/ID or migration/NAME" in run("why", "pod/").stderr
    assert "use them with pod/NAME" in run("why", "node/edge-7", "--namespace", "shop").stderr


def test_what_was_not_decided_by_then_is_not_said_to_be_undecided(run: Run) -> None:
    asked = ("why", "pod/encode-video-0", "--node", "edge-7")
    text = well(run(*asked, "--at", "-2d"))
    assert "no stored decision considered it by then (--at -2d); ask for a later time" in text
    assert text.splitlines()[1].startswith("now: batch, BE, uses "), "its usage is not that of two days ago"
    assert "by then" not in well(run(*asked))


def test_what_would_be_ignored_is_refused(run: Run) -> None:
    assert "'batch-cpu': a subject selects a number of a node" in run("why", "pod/checkout-0", "batch-cpu").stderr
    refused = run("why", f"decision/{THROTTLE}", "--at", "-5m")
    assert refused.exit_code == 2
    assert "remove --at" in refused.stderr


def test_json_is_the_apis_object(run: Run) -> None:
    told = json.loads(well(run("why", "pod/checkout-0", "--node", "edge-7", "-o", "json")))
    assert set(told) == {"pod", "running", "decisions"}


def test_a_decision_is_shown_with_its_arithmetic_and_candidates(run: Run) -> None:
    text = well(run("why", f"decision/{THROTTLE}"))
    assert "gap = (1 + 0.1) x 0.909 cores = 1 core" in text
    assert "released: 1 core by 2 pods; remaining = gap - released, not below 0 = 0 cores" in text
    rows = [line.split() for line in text.splitlines() if line.strip().startswith(("1 ", "2 ", "- "))]
    assert [(row[1], row[2], row[3]) for row in rows] == [
        ("encode-video-0", "chosen", "0.600"), ("encode-video-1", "chosen", "0.400"), ("checkout-0", "spared", "-"),
    ]  # fmt: skip


def test_decisions_are_listed_by_pool_and_by_what_the_api_filters_by(run: Run) -> None:
    def ids(*options: str) -> set[str]:
        return {item["id"] for item in json.loads(well(run("get", "decisions", *options, "-o", "json")))["items"]}

    throttles = ids("--pool", "edge", "--where", "kind=throttle", "--where", "carriedOut=true", "--limit", "500")
    assert THROTTLE in throttles
    assert ids("--pool", "nowhere") == set()
    uid = identifier("edge-7", "checkout-0")
    assert ids("--where", f"pod={uid}") == set()
    assert ids("--where", f"pod={uid}", "--where", "spared=true", "--where", "kind=throttle") <= throttles


def test_stored_events_are_listed_by_node_and_type(run: Run) -> None:
    lines = well(run("get", "events", "--node", "edge-10", "--where", "types=node.*")).splitlines()
    assert lines[0].split() == ["TIME", "TYPE", "NODE", "WHAT"]
    assert [line.split()[2:4] for line in lines[1:]] == [["node.liveness_changed", "edge-10"]] * 2
    assert lines[1].endswith("fresh -> stale")
    assert {"SOURCE", "TRACE", "ID"} <= set(well(run("get", "events", "-o", "wide")).splitlines()[0].split())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("get", "decisions", "--where", "colour=red"), "'colour=red' is not a filter; allowed: kind=…"),
        (("get", "decisions", "--where", "kind"), "'kind' is not a filter"),
        (("get", "decisions", "--where", "kind=ofer"), "; got 'ofer'; did you mean 'offer'?"),
        (("get", "nodes", "--where", "kind=evict"), "'kind=evict' is not a filter; allowed: name=…, liveness=…"),
        (("get", "pods", "--where", "tear=batch"), "'tear=batch' is not a filter; did you mean tier=…?"),
        (("get", "pods", "--where", "tier="), "'tier=' is not a filter; allowed: node=…"),
        (("get", "shards", "--pool", "edge"), "allowed: offers, decisions, nodes, pods, workloads"),
        (("get", "events", "--pool", "edge"), "events have no list by pool"),
        (("get", "events", "--where", "kind=evict"), "allowed: types=…, trace=…, since=…, until=…"),
    ],
)
def test_filters_that_are_none_are_refused(run: Run, command: tuple[str, ...], said: str) -> None:
    refused = run(*command)
    assert refused.exit_code == 2
    assert said in refused.stderr


def printed(print_it: Any, *values: Any) -> str:
    console = Console(width=120, color_system=None, highlight=False)
    with console.capture() as caught:
        print_it(console, *values)
    return caught.get()


def test_a_pod_without_decisions_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    pod = {"uid": "u", "name": "web", "namespace": "", "node": "n1", "seen_at": "2026-01-05T12:00:00Z"}
    text = printed(print_pod, {"pod": pod, "running": None, "decisions": []})
    assert "pod web on node n1, uid u" in text
    assert "it no longer runs; last considered 2026-01-05 12:00:00Z" in text
    assert "no stored decision considered it" in text


def test_many_candidates_are_cut_and_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"place": 1, "name": "a", "chosen": False, "released": None, "would_release": 3, "keys": [1.0], "because": ""}
    printed_rows = printed(print_candidates, [row] * (LISTED + 7), "priority, uid", "bytes")
    assert "and 7 more: -o json has all" in printed_rows + capsys.readouterr().out


@pytest.mark.parametrize(
    ("chosen", "carried_out", "kind", "said"),
    [
        (True, True, "evict", "evicted"),
        (True, False, "evict", "would be evicted"),
        (True, True, "restore", "given back"),
        (False, False, "throttle", "spared"),
    ],
)
def test_a_verdict_is_a_word_or_two(chosen: bool, carried_out: bool, kind: str, said: str) -> None:
    assert verdict({"chosen": chosen, "carried_out": carried_out, "kind": kind}) == said


def test_what_is_added_up_by_hand_is_not_rounded() -> None:
    assert (exact(1234, "milli-cores"), exact(3221225473, "bytes")) == ("1.234", "3 221 225 473")

"""get, describe and why: what they print, where, and with which status they end."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from datetime import timedelta

import httpx2
import pytest
import yaml
from click.testing import Result
from served import END, Served, served
from tests.support.story import FLEET, SURGE, identifier

from slackwater.cli import list_kinds
from slackwater.model.errors import InvalidInput

Run = Callable[..., Result]
NAMES = sorted(node.name for node in FLEET)
THROTTLE = identifier("edge-7", "throttle", SURGE[0] + 25)
KINDS = ("nodes", "pods", "workloads", "offers", "decisions", "shards")


def every(kind: str) -> tuple[str, ...]:
    """The arguments that list all of a kind, one line each."""
    return (kind, "--all") if kind == "decisions" else (kind,)


def well(result: Result) -> str:
    """What it printed to stdout, if it went well and said nothing else."""
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def failure(result: Result, status: int) -> str:
    """The one line on stderr of a command that printed nothing."""
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


def ago(second: float) -> str:
    """A moment of the story as --at takes it."""
    return (END - timedelta(seconds=900 - second)).isoformat()


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_plain_text_with_one_line_per_item(run: Run, console: Served, kind: str) -> None:
    lines = well(run("get", *every(kind))).splitlines()
    items = httpx2.get(f"{console.url}/v1/{kind}", trust_env=False).json()["items"]
    assert len(lines) == len(items) + 1
    assert lines[0] == lines[0].upper()
    assert not any("\x1b" in line or line != line.rstrip() for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_without_headers_only_the_items_remain(run: Run, kind: str) -> None:
    assert well(run("get", kind, "--no-headers")).split() == well(run("get", kind)).split("\n", 1)[1].split()


@pytest.mark.parametrize("kind", KINDS)
def test_wide_begins_with_the_columns_of_the_table_and_has_more(run: Run, kind: str) -> None:
    narrow, wide = (well(run("get", kind, "-o", form)).splitlines()[0].split() for form in ("table", "wide"))
    assert wide[: len(narrow)] == narrow
    assert len(wide) > len(narrow)


@pytest.mark.parametrize("kind", KINDS)
def test_json_and_yaml_are_the_object_of_the_api(run: Run, console: Served, kind: str) -> None:
    answer = httpx2.get(f"{console.url}/v1/{kind}", trust_env=False).json()
    assert json.loads(well(run("get", *every(kind), "-o", "json"))) == answer
    assert yaml.safe_load(well(run("get", *every(kind), "-o", "yaml"))) == answer


def test_the_columns_of_a_table_line_up(run: Run) -> None:
    lines = well(run("get", "nodes")).splitlines()
    ends = {line.find(word) for line, word in zip(lines, ["LIVENESS", "stale", "fresh", "fresh", "fresh"], strict=True)}
    assert len(ends) == 1
    assert [line.split()[0] for line in lines[1:]] == NAMES


@pytest.mark.parametrize("arguments", [("node", "edge-8"), ("node/edge-8",), ("no", "edge-8"), ("nodes", "edge-8")])
def test_one_node_is_asked_for_in_any_of_the_usual_ways(run: Run, arguments: tuple[str, ...]) -> None:
    assert well(run("get", *arguments, "--no-headers")).split()[0] == "edge-8"


def test_one_item_as_json_is_the_object_itself(run: Run) -> None:
    assert json.loads(well(run("get", "node", "edge-8", "-o", "json")))["name"] == "edge-8"
    assert json.loads(well(run("get", "decision", THROTTLE, "-o", "json")))["id"] == THROTTLE


def test_lists_can_be_limited_to_a_node(run: Run) -> None:
    assert {line.split()[0] for line in well(run("get", "pods", "--node", "edge-9", "--no-headers")).splitlines()} == {
        "edge-9"
    }


def test_a_name_that_is_not_known_brings_up_its_neighbours(run: Run) -> None:
    assert "did you mean 'edge-7'" in failure(run("get", "node", "edge-77"), 1)
    assert "did you mean 'encode-video-1'" in failure(run("get", "pod", "encode-vido-1"), 1)
    assert "did you mean 'edge-7'" in failure(run("describe", "node", "edge-77"), 1)
    assert "did you mean 'edge-7'" in failure(run("why", "node/edge-77"), 1)
    assert "batch-cpu" in failure(run("why", "node/edge-7", "batch-cup"), 1)


def test_what_is_wrong_with_the_command_itself_ends_with_2(run: Run) -> None:
    assert "did you mean 'nodes'" in failure(run("get", "noodes"), 2)
    allowed = "node/NAME, pod/NAME, decision/ID, quota/NAME, claim/ID or migration/NAME"
    assert allowed in failure(run("why", "edge-7"), 2)
    assert "cannot be described" in failure(run("describe", "pods", "x"), 2)
    assert run("get", "pods", "--node", "edge-77").stderr == "no pods with node edge-77\n"
    assert "'node': the name is missing; use `slackwater describe node NAME`" in failure(run("describe", "node"), 2)
    assert "allowed" in failure(run("why", "node/edge-7", "--at", "yesterday"), 2)
    assert "allowed: table, wide, json, yaml, name" in failure(run("get", "nodes", "-o", "xml"), 2)


def test_no_server_is_an_error_with_advice(run: Run) -> None:
    text = failure(run("get", "nodes", "--server", "http://127.0.0.1:1"), 1)
    assert "127.0.0.1:1" in text
    assert "slackwater doctor" in text


def test_describe_puts_all_of_a_node_on_a_page(run: Run) -> None:
    text = well(run("describe", "node/edge-7"))
    for part in ("Name:      edge-7", "Capacity:  8 cores, 32Gi", "batch:   2.66 cores, ", "encode-video-1"):
        assert part in text
    assert text.index("Pods (5):") < text.index("Last decisions:")


def test_describe_explains_the_offer_in_force(run: Run) -> None:
    text = well(run("describe", "node/edge-9"))
    offer = json.loads(well(run("get", "node/edge-9", "-o", "json")))["offer"]
    for part in (
        "mid:     0.3 cores, 1Gi",
        "reason:  offer_changed",
        "strategy: cluster@3 < pool/edge@2 < node-annotation",
        "node1  ",
    ):
        assert part in text
    for subject, identity in offer["decision_ids"].items():
        assert re.search(rf"^  {subject} .* {identity}$", text, re.MULTILINE)


def test_offers_of_a_pool_end_with_their_sums(run: Run) -> None:
    lines = well(run("get", "offers", "--pool", "edge")).splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == NAMES
    answer = json.loads(well(run("get", "offers", "--pool", "edge", "-o", "json")))
    batch = sum(item["batch"]["cpu_milli"] for item in answer["items"])
    assert lines[-1].startswith("pool edge: 4 of 4 nodes offer, 0 degraded; ")
    assert f"batch {batch / 1000:g} and mid 1.56 of 40 cores" in lines[-1]
    assert "sums" in answer
    assert well(run("get", "offers", "--pool", "edge", "--no-headers")).split() == " ".join(lines[1:-1]).split()
    assert "did you mean 'edge'" in failure(run("get", "offers", "--pool", "egde"), 1)
    assert "allowed: offers" in failure(run("get", "shards", "--pool", "edge"), 2)


def test_wide_offers_show_pool_reason_strategies_zones_and_decision(run: Run) -> None:
    head, *lines = (line.split() for line in well(run("get", "offers", "-o", "wide")).splitlines())
    nine = dict(zip(head, next(line for line in lines if line[0] == "edge-9"), strict=True))
    assert nine["POOL"] == "edge"
    assert nine["REASON"] == "offer_changed"
    assert nine["STRATEGIES"] == "cluster@3,pool/edge@2,node-annotation"
    assert re.fullmatch(r"node0=[\d.]+/[\d.]+Gi,node1=[\d.]+/[\d.]+Gi", nine["ZONES"])
    assert nine["DECISION"] == identifier("edge-9", "offer", 840)


def test_describe_as_json_holds_its_parts(run: Run) -> None:
    answer = json.loads(well(run("describe", "node/edge-7", "-o", "json")))
    assert set(answer) == {"node", "pods", "decisions"}
    assert len(answer["pods"]) == 5


def test_the_numbers_that_why_prints_add_up(run: Run) -> None:
    text = well(run("why", "node/edge-7", "batch-cpu"))
    values = [float(number) for number in re.findall(r"^\S.*?([+-]\d+\.\d{3}) ", text, re.MULTILINE)]
    result = float(re.findall(r"^result +(\d+\.\d{3})", text, re.MULTILINE)[0])
    assert len(values) == 6
    assert sum(values) == pytest.approx(result)
    assert f"{result:.10g} cores" in text.splitlines()[0]
    assert "the terms add up" in text


@pytest.mark.parametrize("subject", ["batch-cpu", "batch-memory", "mid-cpu", "mid-memory"])
def test_why_explains_each_amount_of_an_offer(run: Run, subject: str) -> None:
    offer = json.loads(well(run("get", "offer", "edge-7", "-o", "json")))
    answer = json.loads(well(run("why", "node/edge-7", subject, "-o", "json")))
    tier, resource = subject.split("-")
    assert answer["result"] == offer[tier]["cpu_milli" if resource == "cpu" else "memory_bytes"]
    assert answer["record"]["id"] == offer["decision_ids"][subject]
    assert answer["adds_up"]
    assert "the terms add up" in well(run("why", "node/edge-7", subject))


def test_why_shows_memory_in_binary_units(run: Run) -> None:
    assert re.search(r"^capacity +32Gi +node", well(run("why", "node/edge-7", "batch-memory")), re.MULTILINE)


def test_the_bytes_that_why_prints_add_up_where_rounded_amounts_need_not(run: Run) -> None:
    text = well(run("why", "node/edge-7", "batch-memory"))
    (line,) = (line for line in text.splitlines() if line.startswith("exactly: "))
    left, _, right = line.removeprefix("exactly: ").removesuffix(" bytes").partition(" = ")
    signed = re.findall(r"([+-]? ?)(\d{1,3}(?: \d{3})*)", left)
    total = sum(int(number.replace(" ", "")) * (-1 if "-" in sign else 1) for sign, number in signed)
    answer = json.loads(well(run("why", "node/edge-7", "batch-memory", "-o", "json")))
    assert total == int(right.replace(" ", "")) == answer["result"]
    assert "exactly: " not in well(run("why", "node/edge-7", "batch-cpu")), "cores are not rounded"


def test_why_answers_for_the_past(run: Run) -> None:
    then = json.loads(well(run("why", "node/edge-7", "batch-cpu", "--at", ago(500), "-o", "json")))
    now = json.loads(well(run("why", "node/edge-7", "batch-cpu", "-o", "json")))
    assert then["in_force_since"] <= then["at"] < now["in_force_since"]
    assert then["result"] < now["result"]
    relative = json.loads(well(run("why", "node/edge-7", "--at", "-400s", "-o", "json")))
    assert relative["result"] == then["result"]
    assert "ask for a later time" in failure(run("why", "node/edge-7", "--at", "-2d"), 1)


def test_why_a_decision_is_the_way_from_its_cause_to_its_effect(run: Run) -> None:
    lines = well(run("why", f"decision/{THROTTLE}")).splitlines()
    steps = [line.split()[:3] for line in lines if line.lstrip().startswith("+")]
    assert [step[2] for step in steps] == ["usage.reported", "decision.recorded", "intent.observed", "effect.measured"]
    assert [step[0] for step in steps] == ["+0.000", "+0.050", "+0.300", "+5.000"]
    assert "took back 1 core" in "".join(lines)
    assert "complete" not in "".join(lines)
    assert "`slackwater get decisions`" in failure(run("why", "decision/none"), 1)


@pytest.mark.parametrize(
    ("word", "path"), [("po", "/v1/pods"), ("Decisions", "/v1/decisions"), ("offer", "/v1/offers")]
)
def test_nouns_have_short_and_single_forms(word: str, path: str) -> None:
    assert list_kinds.kind_of(word).path == path


def test_a_name_is_given_once() -> None:
    assert list_kinds.split_target("node/a", None) == ("node", "a")
    with pytest.raises(InvalidInput, match="two names"):
        list_kinds.split_target("node/a", "b")


def test_watch_prints_what_changes_until_the_server_ends(run: Run) -> None:
    with served(SURGE[0] + 5) as living:

        def go_on() -> None:
            while not living.streams.open:
                threading.Event().wait(0.01)
            living.tell(5.1)
            threading.Event().wait(0.3)
            living.loop.call_soon_threadsafe(living.streams.close)

        telling = threading.Thread(target=go_on)
        telling.start()
        lines = well(run("get", "decisions", "--watch", "--server", living.url)).splitlines()
        telling.join()
    assert lines[0].startswith("TIME")
    assert identifier("edge-7", "throttle", SURGE[0] + 10) in lines[-1], "new decisions come below what was there"


def test_why_of_a_predicted_peak_prints_its_four_terms_and_the_knob(run: Run) -> None:
    printed = well(run("why", "node/edge-7", "prod-cpu-peak"))
    lines = printed.partition("INPUT")[0].splitlines()
    assert lines[0].startswith("prod-cpu-peak of node edge-7: ")
    assert "rule workload-profile" in lines[1]
    terms = [found[0] for line in lines[3:] if (found := re.findall(r"^([a-z_]+) ", line))]
    assert terms == ["seen_together", "coincidence", "novelty", "noise", "result"]
    assert "the terms add up" in printed
    assert re.search(r"^knob +0\.24 +ratio +ledger of pool default", printed, re.MULTILINE)
    assert "not chosen: peaks seen together" in printed


def test_a_list_is_printed_as_names_that_get_takes_back(run: Run) -> None:
    names = well(run("get", "nodes", "-o", "name")).split()
    assert names == [f"node/{name}" for name in NAMES]
    assert well(run("get", names[0], "--no-headers")).split()[0] == NAMES[0]
    [decision] = well(run("get", "decisions", "--limit", "1", "-o", "name")).split()
    assert json.loads(well(run("get", decision, "-o", "json")))["id"] == decision.removeprefix("decision/")


def test_a_template_takes_the_object_of_the_api(run: Run) -> None:
    names = well(run("get", "nodes", "-o", 'jsonpath={range .items[*]}{.name}{"\\n"}{end}'))
    assert names.split() == NAMES
    assert well(run("get", "node", "edge-7", "-o", "jsonpath={.facts.capacity.cpu_milli}")) == "8000\n"
    assert "jsonpath: '.items['" in failure(run("get", "nodes", "-o", "jsonpath={.items[}"), 2)


def test_rows_are_selected_and_sorted(run: Run) -> None:
    used = [line.split()[4] for line in well(run("get", "nodes", "--sort-by", "-used", "--no-headers")).splitlines()]
    assert used == sorted(used, key=float, reverse=True)
    by_path = well(run("get", "nodes", "--sort-by", "-.usage.usage.cpu_milli", "--no-headers")).splitlines()
    assert [line.split()[4] for line in by_path] == used
    assert run("get", "nodes", "-l", "no-such-label").stderr == "no nodes with these labels\n"
    hint = "no pods with these labels; tier is a column, not a label: --where tier=batch\n"
    assert run("get", "pods", "-l", "tier=batch").stderr == hint
    assert run("get", "pods", "-l", "tier!=prod,colour=red", "-o", "name").stderr == "no pods with these labels\n"
    assert "have no labels; allowed: nodes, pods" in failure(run("get", "shards", "-l", "a=b"), 2)
    assert "is not a column" in failure(run("get", "nodes", "--sort-by", "colour"), 2)


@pytest.mark.parametrize(
    ("limits", "text"),
    [((None, None), "none (unread)"), ((2000, 2000), "2 (unread)"), ((500, None), "none -> 0.5 (unread)")],
)
def test_a_limit_that_the_agent_could_not_read_is_marked(limits: tuple[int | None, int | None], text: str) -> None:
    """`get pods` and the pods of `describe node` are this table."""
    now, original = limits
    pod = {
        "cpu_limit_milli": now,
        "original_cpu_limit_milli": original,
        "throttled": now is not None and now != original,
    }
    [column] = [column for column in list_kinds.POD if column.title == "LIMIT"]
    assert column.text({**pod, "unread": "permission_denied"}) == text
    assert column.text({**pod, "unread": None}) == column.text(pod) == text.removesuffix(" (unread)")


def test_rows_are_selected_by_their_cells(run: Run) -> None:
    def pods(*where: str) -> list[list[str]]:
        options = [word for condition in where for word in ("--where", condition)]
        return [line.split() for line in well(run("get", "pods", "--no-headers", *options)).splitlines()]

    batch = [pod for pod in pods() if pod[2] == "batch"]
    assert 0 < len(batch) < len(pods())
    assert pods("TIER=Batch") == batch
    node = batch[0][0]
    assert pods("tier=batch", f"node={node}") == [pod for pod in batch if pod[0] == node]
    assert run("get", "pods", "--where", "tier=gold").stderr == "no pods with tier gold\n"
    chosen = json.loads(well(run("get", "pods", "--where", "tier=batch", "-o", "json")))["items"]
    assert {pod["tier"] for pod in chosen} == {"batch"}


def test_decisions_are_grouped_without_predictions_unless_all_are_wanted(run: Run, console: Served) -> None:
    answer = httpx2.get(f"{console.url}/v1/decisions?excludeKind=prediction&limit=500", trust_env=False).json()
    kinds = {item["kind"] for item in answer["items"]}
    assert "prediction" not in kinds
    assert len(kinds) > 1
    lines = well(run("get", "decisions", "--no-headers", "--limit", "500")).splitlines()
    steps = [int(line.split()[5]) for line in lines]
    assert sum(steps) == len(answer["items"]) > len(lines)
    everything = httpx2.get(f"{console.url}/v1/decisions?limit=500", trust_env=False).json()["items"]
    assert len(well(run("get", "decisions", "--all", "--no-headers", "--limit", "500")).splitlines()) == len(everything)
    none = httpx2.get(f"{console.url}/v1/decisions?kind=offer&excludeKind=offer", trust_env=False).json()
    assert none["items"] == []

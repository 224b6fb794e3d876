from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.bus.admin.stream_setup import consumer_configs, stream_config
from slackwater.bus.admin.streams import ConsumerSpec, load, parse
from slackwater.events.registry import EVENTS
from slackwater.model.errors import Misconfigured
from slackwater.runtime.embedded_nats import LIMITS

SOURCE = Path(__file__).parents[3] / "contracts" / "streams.yaml"


def unused_stream() -> dict[str, Any]:
    """A stream that no event names."""
    return {"storage": "file", "max_bytes": 1000, "discard": "old"}


def changed(*path: str, to: Any) -> str:
    document = copy.deepcopy(yaml.safe_load(SOURCE.read_text()))
    target = document
    for step in path[:-1]:
        target = target[step]
    if to is None:
        del target[path[-1]]
    else:
        target[path[-1]] = to
    return yaml.safe_dump(document)


def test_the_committed_topology_is_valid_and_found_without_a_path() -> None:
    assert load() == load(SOURCE)
    assert load().stream_of("ingestion-usage-reported") == "USAGE"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed("streams", "WINDOWS", to=None), "usage.windowed must be kept by stream WINDOWS alone, found none"),
        (changed("streams", "DLQ", "subjects", to="sw.v1.dlq.>"), "streams.DLQ.subjects"),
        (changed("streams", "SPARE", to=unused_stream()), "streams.SPARE.subjects"),
        (changed("streams", "STATE", "subjects", to=["sw.v1.>"]), "AGENTS alone, found AGENTS, STATE"),
        (changed("streams", "DLQ", to=None), "dead letters"),
        (changed("consumers", "console-node-described", "event", to="node.descibed"), "node.descibed"),
        (changed("consumers", "console-node-described", "ack_wait", to=3), "ack_wait"),
        (changed("streams", "USAGE", "max_bytes", to=0), "max_bytes"),
        ("streams: [", "streams.yaml"),
    ],
)
def test_a_mistake_in_the_topology_is_named(text: str, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        parse(text, "streams.yaml")


def test_a_stream_stores_the_events_that_name_it() -> None:
    streams = load().streams
    assert streams["WINDOWS"].subjects == ("sw.v1.usage.windowed.>",)
    assert streams["DLQ"].subjects == ("sw.v1.dlq.>",)
    stored = sorted(subject for spec in streams.values() for subject in spec.subjects)
    assert stored == sorted([f"sw.v1.{payload.TYPE}.>" for payload in EVENTS] + ["sw.v1.dlq.>"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="nowhere"):
        load(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("payload", EVENTS, ids=lambda payload: payload.TYPE)
def test_every_event_names_a_stream_that_exists(payload: Any) -> None:
    assert payload.STREAM in load().streams


def test_the_broker_never_gives_up_by_itself_because_it_would_do_so_silently() -> None:
    assert consumer_configs("c", ConsumerSpec(event="usage.reported", max_deliver=2))[0].max_deliver == -1


def test_the_window_for_repeats_is_no_longer_than_the_age_that_jetstream_allows() -> None:
    spec = load().streams["USAGE"].model_copy(update={"max_age_seconds": 60.0})
    assert stream_config("USAGE", spec).duplicate_window == 60


def test_more_agents_may_watch_than_the_broker_allows_by_default() -> None:
    configs = [stream_config(name, spec) for name, spec in load().streams.items()]
    assert all((config.max_consumers or 0) > 5000 for config in configs)  # AgentSettings.nodes goes up to that


@pytest.mark.parametrize(("storage", "limit"), [("memory", "max_memory_store"), ("file", "max_file_store")])
def test_the_broker_has_room_for_all_streams_at_their_fullest(storage: str, limit: str) -> None:
    units = {"MB": 10**6, "GB": 10**9}
    found = re.search(rf"{limit}: (\d+)(\w\w)", LIMITS)
    assert found is not None
    assert (
        sum(one.max_bytes for one in load().streams.values() if one.storage == storage)
        < int(found[1]) * units[found[2]]
    )

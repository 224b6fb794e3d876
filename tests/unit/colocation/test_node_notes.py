"""Annotations of the field about a node's amounts: how they are read, what they change, what a status says then."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from colocation_scene import Colocation, received
from tests.support.windows import described

from slackwater.events.envelope import event_of
from slackwater.events.resources_offered import StatusOffered
from slackwater.model.quantities import Resources
from slackwater.offers.node_notes import NodeNotes, NodeStatus, allocatable_of, notes_of
from slackwater.offers.reserved_amounts import ThirdParty
from slackwater.offers.strategy import MidMode, Strategy

GIB = 2**30
CAPACITY = Resources(8000, 16 * GIB)
YARN = {
    "allocations": [
        {
            "name": "yarn",
            "priority": "koord-batch",
            "resources": {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi"},
        }
    ]
}


def test_every_note_is_read_by_either_name() -> None:
    for prefix in ("slackwater.io/", "node.koordinator.sh/"):
        found = notes_of(
            {
                f"{prefix}reservation": '{"resources": {"cpu": "500m", "memory": "1Gi"}, "reservedCPUs": "0-1"}',
                f"{prefix}raw-allocatable": '{"cpu": "7", "memory": "14Gi"}',
                f"{prefix}cpu-normalization-ratio": "1.20",
                f"{prefix}third-party-allocations": json.dumps(YARN),
            },
            CAPACITY,
        )
        assert found == NodeNotes(
            reserved=Resources(2000, 2 * GIB),  # two named CPUs; memory that the kubelet keeps
            allocatable=Resources(7000, 14 * GIB),
            cpu_ratio="1.2",
            third_parties=(ThirdParty("yarn", "batch", Resources(1000, GIB)),),
            reserved_by_name=Resources(2000, GIB),
        )


@pytest.mark.parametrize(
    ("cpu", "milli"),
    [
        *(("1500m", 1500), ("250000u", 250), ("1e9n", 0), ("500000000n", 500), ("1.5", 1500), ("15e-1", 1500)),
        ("0.001k", 1000),
    ],
)
@pytest.mark.parametrize(
    ("memory", "count"),
    [("1073741824000m", GIB), ("1.5Gi", 3 * GIB // 2), ("1e9", 10**9), ("1k", 1000), ("0.000001Ei", 1152921504607)],
)
def test_amounts_have_all_forms_of_kubernetes(cpu: str, milli: int, memory: str, count: int) -> None:
    """`1e9n` is none: Kubernetes takes an exponent or a suffix."""
    written = json.dumps({"resources": {"cpu": cpu, "memory": memory}})
    capacity = Resources(8000, 2**41)
    notes = notes_of({"slackwater.io/reservation": written}, capacity)
    assert notes.reserved == Resources(milli, count)
    assert bool(notes.problems) == (cpu == "1e9n")
    raw = json.dumps({"cpu": cpu, "memory": memory})
    if milli:
        assert allocatable_of({"slackwater.io/raw-allocatable": raw}, capacity) == Resources(milli, count)


GOOD_NOTES = {
    "reservation": '{"resources": {"cpu": "1", "memory": "2Gi"}}',
    "raw-allocatable": '{"cpu": "7", "memory": "15Gi"}',
    "cpu-normalization-ratio": "1.5",
    "third-party-allocations": json.dumps(YARN),
}


@pytest.mark.parametrize("name", GOOD_NOTES)
def test_the_last_readable_value_stays_while_an_annotation_cannot_be_read(name: str) -> None:
    for prefix in ("slackwater.io/", "node.koordinator.sh/"):
        good = {f"{prefix}{each}": text for each, text in GOOD_NOTES.items()}
        before = notes_of(good, CAPACITY)
        spoilt = {**good, f"{prefix}{name}": '{"resources": '}
        kept = notes_of(spoilt, CAPACITY, before)
        assert replace(kept, problems=()) == before
        (problem,) = kept.problems
        assert problem.startswith(f"annotation {prefix}{name}: ")
        assert problem.endswith("; its last readable value stays")
        assert replace(notes_of(spoilt, CAPACITY, kept), problems=()) == before, "as long as it cannot be read"
        del good[f"{prefix}{name}"]
        assert notes_of(good, CAPACITY, kept) == notes_of(good, CAPACITY), "an annotation that is gone counts no more"


def test_of_a_reservation_never_read_the_readable_amounts_count() -> None:
    notes = notes_of({"slackwater.io/reservation": '{"resources": {"cpu": "much", "memory": "2Gi"}}'}, CAPACITY)
    assert notes.reserved == Resources(0, 2 * GIB)
    assert "the amounts that can be read count" in notes.problems[0]


@pytest.mark.parametrize(
    ("text", "reserved", "named"),
    [
        ('{"reservedCPUs": 0}', Resources(1000, 0), ""),
        ('{"resources": {"cpu": null, "memory": "1Gi"}}', Resources(0, GIB), ""),
        ('{"resources": {"cpu": 1.5, "memory": 1.5e9}}', Resources(1500, 1_500_000_000), ""),
        ('{"resources": null, "reservedCPUs": "0, 2-3 "}', Resources(3000, 0), ""),
        ('{"resources": [{"cpu": "1"}], "reservedCPUs": "0-3"}', Resources(4000, 0), "must be a JSON object"),
        ('{"resources": {"cpu": "2", "memory": "4GiB"}}', Resources(2000, 0), "'4GiB' is not a quantity"),
        ('{"resources": {"cpu": {"a": 1}, "memory": "1Gi"}}', Resources(0, GIB), "is not a quantity"),
        ('{"resources": {"cpu": 1e400, "memory": "1Gi"}}', Resources(0, GIB), "'inf' is not a quantity"),
        ('{"resources": {"cpu": "2"}, "reservedCPUs": ["0", "1"]}', Resources(2000, 0), "is not a list of CPUs"),
    ],
)
def test_reservations_as_they_are_written_in_the_field(text: str, reserved: Resources, named: str) -> None:
    """What can be read of one is kept back, and what cannot is named."""
    notes = notes_of({"node.koordinator.sh/reservation": text}, CAPACITY)
    assert notes.reserved == reserved
    assert named in "; ".join(notes.problems)
    assert bool(notes.problems) == bool(named)


def test_nothing_is_kept_back_that_is_not_there() -> None:
    much = {"slackwater.io/reservation": '{"resources": {"cpu": "9" , "memory": "1Pi"}}'}
    assert notes_of(much, CAPACITY).reserved == CAPACITY


@pytest.mark.parametrize("amount", ["16000", "1e30", "10E", 99_999_999])
def test_more_than_any_machine_has_is_all_that_there_is(amount: object) -> None:
    """Such as a forgotten `m`: what is certainly meant is a reservation."""
    written = json.dumps({"resources": {"cpu": amount, "memory": f"{amount}Gi" if amount == "16000" else "16Ei"}})
    notes = notes_of({"slackwater.io/reservation": written}, CAPACITY)
    assert (notes.reserved, notes.problems) == (CAPACITY, ())
    raw = {"slackwater.io/raw-allocatable": json.dumps({"cpu": amount, "memory": "16Ei"})}
    assert allocatable_of(raw, CAPACITY) == CAPACITY


def test_our_own_name_wins_and_nothing_said_changes_nothing() -> None:
    both = {"node.koordinator.sh/cpu-normalization-ratio": "2", "slackwater.io/cpu-normalization-ratio": "3.00"}
    assert notes_of(both, CAPACITY).cpu_ratio == "3"
    assert notes_of({"other": "x"}, CAPACITY) == NodeNotes()
    assert NodeNotes().status_of(CAPACITY) is None


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("reservation", "{", "is not valid JSON"),
        ("reservation", "[]", "must be a JSON object"),
        ("reservation", '{"reservedCPUs": "3-1"}', "not a list of CPUs"),
        ("reservation", '{"resources": {"cpu": "much"}}', "is not a quantity"),
        ("reservation", '{"resources": {"cpu": "1e99999999"}}', "more than any machine has"),
        pytest.param("reservation", f'{{"resources": {{"cpu": {"9" * 5000}}}}}', "is not valid JSON", id="long number"),
        pytest.param("reservation", "[" * 100_000, "is not valid JSON", id="deep"),
        pytest.param("reservation", f'{{"reservedCPUs": "{"9" * 5000}"}}', "not a list of CPUs", id="long CPU"),
        ("reservation", '{"reservedCPUs": "0-9999999999"}', "up to 65535"),
        ("raw-allocatable", '{"cpu": "7"}', "must both be given"),
        ("cpu-normalization-ratio", "0.5", "from 1 to 5"),
        ("third-party-allocations", '{"allocations": {}}', "a list of objects"),
        ("third-party-allocations", '{"allocations": [{"resources": 3}]}', "must be a JSON object"),
        ("third-party-allocations", '{"allocations": [{"resources": {"kubernetes.io/batch-cpu": "x"}}]}', "quantity"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_named_and_the_rest_is_read(name: str, text: str, why: str) -> None:
    good = {"slackwater.io/cpu-normalization-ratio": "2", "slackwater.io/reservation": '{"reservedCPUs": "0"}'}
    found = notes_of({**good, f"slackwater.io/{name}": text}, CAPACITY)
    (problem,) = found.problems
    assert problem.startswith(f"annotation slackwater.io/{name}: ")
    assert why in problem
    assert ("1" if "ratio" in name else "2") == found.cpu_ratio
    assert Resources(0 if name == "reservation" else 1000, 0) == found.reserved


@pytest.mark.parametrize(
    ("annotations", "cpu_milli"),
    [
        ({}, 8000),
        ({"node.koordinator.sh/raw-allocatable": '{"cpu": "7", "memory": "14Gi"}'}, 7000),
        ({"node.koordinator.sh/raw-allocatable": '{"cpu": "70", "memory": "14Gi"}'}, 8000),
        ({"node.koordinator.sh/raw-allocatable": '{"cpu": "7"}'}, 8000),
        (
            {
                "slackwater.io/raw-allocatable": "{",
                "node.koordinator.sh/raw-allocatable": '{"cpu": "7", "memory": "14Gi"}',
            },
            7000,
        ),
    ],
)
def test_the_raw_allocatable_holds_where_it_can_be_read(annotations: dict[str, str], cpu_milli: int) -> None:
    assert allocatable_of(annotations, CAPACITY).cpu_milli == cpu_milli


def test_a_status_is_in_normal_cpus_without_what_others_hold() -> None:
    notes = NodeNotes(cpu_ratio="1.5", third_parties=(ThirdParty("yarn", "batch", Resources(1000, GIB)),))
    assert notes.status_of(Resources(3001, GIB // 2)) == NodeStatus(
        batch=Resources(3501, 0), before=Resources(4501, GIB // 2), cpu_ratio="1.5"
    )


async def described_as(colocation: Colocation, **annotations: str) -> None:
    data = described("n").data
    names = {f"slackwater.io/{name.replace('_', '-')}": text for name, text in annotations.items()}
    facts = replace(data.facts, annotations=names)
    told = data.model_copy(update={"facts": facts, "described_at": colocation.clock.now()})
    await colocation.events.on_described([received(event_of(told, source="agent", time=colocation.clock.now()))])


async def test_an_offer_keeps_back_what_an_annotation_reserves_and_mid_counts_raw_allocatable() -> None:
    colocation = Colocation(Strategy(mid_mode=MidMode.STATIC, mid_static_cpu_reserved_percent=10))
    await described_as(
        colocation, reservation='{"resources": {"cpu": "1"}}', raw_allocatable='{"cpu": 7, "memory": "14Gi"}'
    )
    await colocation.measure(0, 500)
    offer = colocation.offers()[-1]
    assert offer.mid.cpu_milli == 700
    assert offer.batch.cpu_milli == 4800 - 1000 - 2000 - 700
    assert offer.status is None
    reserved = [each for record in colocation.records() for each in record.inputs if each.name == "reserved_by_node"]
    assert reserved[0].value == 1000


async def test_a_larger_third_party_reservation_is_published_although_the_offer_stays() -> None:
    colocation = Colocation()
    await described_as(colocation, third_party_allocations=json.dumps(YARN))
    await colocation.measure(0, 500)
    first = colocation.offers()[-1]
    assert first.status == StatusOffered(
        Resources(first.batch.cpu_milli - 1000, first.batch.memory_bytes - GIB), first.batch, "1"
    )
    await described_as(colocation)
    assert colocation.offers()[-1].batch == first.batch
    assert colocation.offers()[-1].status is None
    told = len(colocation.offers())
    await colocation.measure(1, 500)
    assert len(colocation.offers()) == told


async def test_a_reservation_that_becomes_unreadable_is_still_kept_back() -> None:
    colocation = Colocation()
    await described_as(colocation, reservation='{"resources": {"cpu": "1"}}')
    await colocation.measure(0, 500)
    first = colocation.offers()[-1]
    await described_as(colocation, reservation='{"resources": {"cpu": "1x"}}')
    await colocation.measure(1, 500)
    assert colocation.offers()[-1].batch == first.batch


async def test_a_note_that_cannot_be_read_is_named_in_the_records() -> None:
    colocation = Colocation()
    await described_as(colocation, cpu_normalization_ratio="9")
    await colocation.measure(0, 500)
    ignored = [each.value for record in colocation.records() for each in record.inputs if each.name == "ignored"]
    assert len(ignored) == 2
    assert "from 1 to 5" in str(ignored[0])

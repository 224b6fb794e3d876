"""The table of offers: any reader, however slow and from any position, ends with what is in force."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.console.domain.offer_table import OfferChange, OfferTable, WantedOffers
from slackwater.console.domain.resume_token import ResumePoint, decode_token, encode_token
from slackwater.console.domain.views import OfferView
from slackwater.model.quantities import Resources

NODES = ["a", "b", "c", "d"]
POOLS = ["", "red", "blue"]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.sampled_from(NODES)),
        st.tuples(st.just("pool"), st.sampled_from(NODES), st.sampled_from(POOLS)),
        st.tuples(st.just("read"), st.integers(1, 3)),
        st.tuples(st.just("resume")),
    ),
    max_size=40,
)
filters = st.builds(
    WantedOffers, st.frozensets(st.sampled_from(NODES), max_size=2), st.sampled_from(["", "red", "blue"])
)


def offer(node: str, generation: int) -> OfferView:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return OfferView(f"{node}-{generation}", node, now, generation, Resources(generation), None, {})


class Reader:
    """A client: holds offers, may break off and come back with only its position."""

    def __init__(self, wanted: WantedOffers) -> None:
        self.wanted = wanted
        self.position = 0
        self.known_from = 0
        self.held: dict[str, OfferView] = {}

    def read(self, table: OfferTable, limit: int) -> None:
        changes, self.position = table.news(self.position, self.known_from, self.wanted, limit)
        for change in changes:
            if change.offer is None:
                self.held.pop(change.node, None)
            else:
                self.held[change.node] = change.offer


@given(steps, filters, st.booleans())
def test_a_reader_holds_what_is_in_force_whatever_it_skipped(
    todo: list[tuple[object, ...]], wanted: WantedOffers, late: bool
) -> None:
    table, sequence, reader = OfferTable(), 0, Reader(wanted)
    offers: dict[str, OfferView] = {}
    pools: dict[str, str] = {}
    reader.known_from = 0
    for what, *rest in [*todo, ("read", 1000)]:
        sequence += 3  # other things are in the log, too
        if what == "offer":
            (node,) = rest
            offers[str(node)] = offer(str(node), sequence)
            table.offered(sequence, offers[str(node)])
        elif what == "pool":
            node, pool = rest
            pools[str(node)] = str(pool)
            table.described(sequence, str(node), str(pool))
        elif what == "read" and not late:
            (limit,) = rest
            reader.read(table, int(str(limit)))
        elif what == "resume":
            reader.known_from = reader.position
    for _ in range(20):
        reader.read(table, 2)

    passing = {
        node: view
        for node, view in offers.items()
        if (not wanted.nodes or node in wanted.nodes) and wanted.pool in ("", pools.get(node, ""))
    }
    assert reader.held == passing
    assert table.news(reader.position, reader.known_from, wanted, 10)[0] == []


def test_a_late_repeat_of_an_older_offer_changes_nothing_and_a_new_count_does() -> None:
    table = OfferTable()
    table.offered(1, offer("a", 6))
    table.offered(2, offer("a", 7))
    table.offered(5, offer("a", 6))
    assert table.news(1, 1, WantedOffers(), 10) == ([OfferChange(2, "a", offer("a", 7))], 5)
    assert table.news(2, 2, WantedOffers(), 10) == ([], 5)
    begun_anew = replace(offer("a", 1), offered_at=offer("a", 7).offered_at + timedelta(seconds=1))
    table.offered(6, begun_anew)
    assert table.news(5, 5, WantedOffers(), 10) == ([OfferChange(6, "a", begun_anew)], 6)


def test_a_snapshot_says_nothing_of_nodes_that_do_not_pass() -> None:
    table = OfferTable()
    table.described(1, "a", "red")
    table.offered(2, offer("a", 1))
    table.described(3, "b", "blue")
    table.offered(4, offer("b", 1))
    assert [change.node for change in table.news(0, table.position, WantedOffers(pool="blue"), 10)[0]] == ["b"]


def test_a_node_that_changes_its_pool_comes_and_goes() -> None:
    table = OfferTable()
    table.described(1, "a", "red")
    table.offered(2, offer("a", 1))
    table.described(3, "a", "blue")
    gone, _ = table.news(2, 2, WantedOffers(pool="red"), 10)
    come, _ = table.news(2, 2, WantedOffers(pool="blue"), 10)
    assert [(change.node, change.offer) for change in gone] == [("a", None)]
    assert [(change.node, change.offer) for change in come] == [("a", offer("a", 1))]


def test_being_described_again_in_the_same_pool_is_no_news() -> None:
    table = OfferTable()
    table.described(1, "a", "red")
    table.offered(2, offer("a", 1))
    table.described(5, "a", "red")
    assert table.news(2, 2, WantedOffers(), 10) == ([], 5)


def test_a_reader_that_moves_to_a_replica_that_began_earlier_misses_nothing() -> None:
    early, late = OfferTable(), OfferTable()
    early.described(1, "a", "red")
    for table in (early, late):  # the log keeps the last description of each node
        table.offered(2, offer("a", 1))
        table.described(3, "b", "red")
        table.offered(4, offer("b", 1))
        table.described(5, "a", "red")
    reader = Reader(WantedOffers(pool="red"))
    reader.known_from = late.position
    reader.read(late, 1)
    assert set(reader.held) == {"b"}
    reader.known_from = reader.position
    reader.read(early, 10)
    assert set(reader.held) == {"a", "b"}


def test_a_node_is_withdrawn_though_it_was_offered_again_since_and_the_reader_was_slow() -> None:
    table, reader = OfferTable(), Reader(WantedOffers(pool="red"))
    for place, node in enumerate(("a", "b"), start=1):
        table.described(2 * place - 1, node, "red")
        table.offered(2 * place, offer(node, 1))
    reader.read(table, 10)
    table.described(5, "a", "blue")
    table.offered(6, offer("b", 2))
    table.offered(7, offer("a", 2))
    for _ in range(3):
        reader.read(table, 1)
    assert reader.held == {"b": offer("b", 2)}


def test_positions_must_rise() -> None:
    table = OfferTable()
    table.offered(2, offer("a", 1))
    with pytest.raises(ValueError, match="not after 2"):
        table.offered(2, offer("b", 1))


@given(st.text(max_size=40), st.integers(0, 2**63), st.text(max_size=12))
def test_a_token_comes_back_as_it_went(epoch: str, sequence: int, fingerprint: str) -> None:
    point = ResumePoint(epoch, sequence, fingerprint)
    assert decode_token(encode_token(point)) == point
    assert encode_token(point).isascii()


@given(st.text(max_size=60))
def test_what_is_no_token_is_none_and_no_error(text: str) -> None:
    found = decode_token(text)
    assert found is None or decode_token(encode_token(found)) == found


@pytest.mark.parametrize(
    "text", ["", "x", "bnVsbA", "W10", "WzIsImEiLDEsImIiXQ", "WzEsImEiLC0xLCJiIl0", "ä", "W1tb" * 3000]
)
def test_these_are_no_tokens(text: str) -> None:
    assert decode_token(text) is None


@given(filters, filters)
def test_filters_have_one_fingerprint_each(one: WantedOffers, other: WantedOffers) -> None:
    assert (one.fingerprint() == other.fingerprint()) == (one == other)

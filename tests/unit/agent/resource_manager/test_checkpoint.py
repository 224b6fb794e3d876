"""The text of the checkpoint: it survives every quantity, and a damaged one is found."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.domain.resource_manager.checkpoint import checkpoint_text, checksum, entries_of
from slackwater.agent.domain.resource_manager.messages import Allocation
from slackwater.agent.domain.resource_manager.run_options import run_options
from slackwater.kernels.topology.hints import Hint
from slackwater.model.errors import InvalidInput

_KEY = ("uid", "main")
_CPU = Allocation("CpusetCpus", 76, "0-37,40-77", hints=(Hint(1, preferred=True), None))


def test_quantities_that_break_the_peers_checkpoint_survive() -> None:
    """The peer keeps protobuf bytes as text: 242 of the integers to 512 are no UTF-8 then."""
    broken = 0
    for quantity in range(1, 513):
        broken += b"\xff" in struct.pack("<d", quantity) or not _is_utf8(struct.pack("<d", quantity))
        entries = {_KEY: {"cpu": Allocation("CpusetCpus", quantity, "0")}}
        assert entries_of(checkpoint_text(entries)) == entries
    assert broken == 242


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


_texts = st.text(max_size=8)
_allocations = st.builds(
    Allocation,
    st.sampled_from(["", "CpusetCpus"]),
    st.floats(allow_nan=False, allow_infinity=False),
    _texts,
    st.booleans(),
    st.booleans(),
    st.dictionaries(_texts, _texts, max_size=2),
    st.dictionaries(_texts, _texts, max_size=2),
    st.lists(st.none() | st.builds(Hint, st.integers(1, 255), st.booleans()), max_size=2).map(tuple),
)


@given(st.dictionaries(st.tuples(_texts, _texts), st.dictionaries(_texts, _allocations, min_size=1, max_size=2)))
def test_what_is_written_is_read_again(entries: dict[tuple[str, str], dict[str, Allocation]]) -> None:
    text = checkpoint_text(entries)
    assert entries_of(text) == entries
    assert checkpoint_text(dict(reversed(entries.items()))) == text


def test_the_form_is_the_peers_with_a_version() -> None:
    document = json.loads(checkpoint_text({_KEY: {"cpu": _CPU}}))
    assert document.keys() == {"Version", "Data", "Checksum"}
    (row,) = document["Data"]["PodResourceEntries"]
    assert json.loads(row["AllocationInfo"]) == {
        "oci_property_name": "CpusetCpus",
        "is_scalar_resource": True,
        "allocated_quantity": 76,
        "allocation_result": "0-37,40-77",
        "resource_hints": {"hints": [{"nodes": [0], "preferred": True}, {}]},
    }
    assert document["Checksum"] == checksum([row])
    assert checksum([]) == 2056658966


@given(st.data())
def test_a_changed_byte_is_found(data: st.DataObject) -> None:
    text = checkpoint_text({_KEY: {"cpu": _CPU}})
    place = data.draw(st.integers(0, len(text) - 1))
    spoilt = text[:place] + data.draw(st.characters(codec="ascii", exclude_characters=text[place])) + text[place + 1 :]
    try:
        entries = entries_of(spoilt)
    except InvalidInput:
        return
    assert entries == {_KEY: {"cpu": _CPU}}, "what changed is not the data"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"Data":{"PodResourceEntries":[1]},"Checksum":1}', "[" * 9999]
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        entries_of(text)


def test_run_options_say_what_contradicts() -> None:
    options = run_options(
        {
            "memory": Allocation("CpusetMems", 1, "1", envs={"A": "2"}),
            "cpu": Allocation("CpusetCpus", 1, "0", envs={"A": "1"}, annotations={"k": "v"}),
            "quota": Allocation("CpuQuota", 1, "-1"),
        }
    )
    assert options.resources == {"CpusetCpus": "0", "CpusetMems": "1", "CpuQuota": -1}
    assert (options.envs, options.annotations) == ({"A": "1"}, {"k": "v"})
    assert options.conflicts == ("environment A: memory sets '2', and '1' counts",)


@pytest.mark.parametrize(("oci", "result"), [("mock", "1"), ("CpuQuota", "1.5"), ("CpuQuota", "")])
def test_unknown_properties_and_numbers_that_are_none_are_refused(oci: str, result: str) -> None:
    with pytest.raises(InvalidInput):
        run_options({"cpu": Allocation(oci, 1, result)})

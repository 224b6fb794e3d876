from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.identifiers import SHARDS, new_id, shard_of


def test_ids_are_uuid7_and_sort_by_time() -> None:
    ids = [new_id() for _ in range(1000)]

    assert len(set(ids)) == 1000
    assert {uuid.UUID(i).version for i in ids} == {7}
    assert [i[:13] for i in ids] == sorted(i[:13] for i in ids)


@given(st.text(max_size=80))
def test_a_shard_is_in_range_and_depends_on_the_key_alone(key: str) -> None:
    assert 0 <= shard_of(key) < SHARDS
    assert shard_of(key) == shard_of(str(key))


def test_shards_are_the_same_on_every_version_of_the_product() -> None:
    assert [shard_of(name) for name in ("node-1", "node-2", "db.example")] == [31, 37, 27]

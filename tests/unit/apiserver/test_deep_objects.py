"""An object that is nested too deeply hinders its kind, or itself alone; it ends no follower and no service."""

from __future__ import annotations

import msgspec
import pytest

from slackwater.apiserver.answers import decode_answer, read_event, read_page, refusal
from slackwater.apiserver.objects import document_kind, parse_object
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.model.reading_budget import BODY
from slackwater.resources.catalog import KINDS

LEVELS = 9_000
"""An API server reads 10,000."""
DEEP = '{"a":' * LEVELS + "1" + "}" * LEVELS
OBJECT = f'{{"metadata": {{"name": "gold", "resourceVersion": "7"}}, "spec": {{"mode": {DEEP}}}}}'
AUTONOMIES = document_kind(next(kind for kind in KINDS if kind.name == "Autonomy"))


def test_a_watch_and_a_list_say_what_is_wrong() -> None:
    with pytest.raises(Unavailable, match="nested too deeply; delete it"):
        read_event(AUTONOMIES, f'{{"type": "ADDED", "object": {OBJECT}}}')
    with pytest.raises(Unavailable, match="nested too deeply; delete it"):
        decode_answer(f'{{"items": [{OBJECT}]}}')
    assert isinstance(refusal(500, OBJECT.encode()), Unavailable)


def test_bytes_that_are_no_text_are_no_json() -> None:
    with pytest.raises(msgspec.DecodeError, match="it is not UTF-8"):
        decode_answer(b'{"a":"\xff"}')
    assert isinstance(refusal(503, b'{"\xff'), Unavailable)


def test_a_depth_that_is_decoded_and_not_written_again_is_no_difference() -> None:
    """The limit of the interpreter counts from where it is called."""
    item: object = 1
    for _ in range(LEVELS):
        item = {"a": item}
    with pytest.raises(Unavailable, match="nested too deeply"):
        read_page(AUTONOMIES, {"items": [{"metadata": {"name": "gold"}, "spec": item}]})


def test_a_spec_beyond_what_services_read_is_refused_as_one_document() -> None:
    spec: object = 1
    for _ in range(BODY.depth + 1):
        spec = {"a": spec}
    record = parse_object({"metadata": {"name": "gold"}, "spec": spec})
    with pytest.raises(InvalidInput, match="spec: more than 64 levels"):
        record.read_spec()

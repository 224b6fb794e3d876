from __future__ import annotations

import pytest

from slackwater.runtime.etags import PreconditionFailed, etag, refuse_other, unchanged


@pytest.mark.parametrize("header", ['"3"', 'W/"3"', '"1", "3"', "*", ' "3" '])
def test_a_matching_if_none_match_is_not_modified(header: str) -> None:
    assert unchanged(header, etag(3))


@pytest.mark.parametrize("header", [None, "", '"2"', "3", '"33"'])
def test_another_if_none_match_gets_the_body(header: str | None) -> None:
    assert not unchanged(header, etag(3))


@pytest.mark.parametrize("header", [None, "*", '"3"', '"1","3"'])
def test_a_matching_if_match_may_write(header: str | None) -> None:
    refuse_other(header, etag(3))


@pytest.mark.parametrize("header", ['"2"', 'W/"3"', "", "3"])
def test_another_if_match_may_not_write(header: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        refuse_other(header, etag(3))
    assert (refused.value.code, refused.value.field) == ("precondition_failed", "If-Match")

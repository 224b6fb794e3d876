"""JSONPath templates: what kubectl's documentation shows, and properties of paths."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.cli.jsonpath import parse_path, parse_template
from slackwater.model.errors import InvalidInput

# The example of https://kubernetes.io/docs/reference/kubectl/jsonpath/
DOCUMENT: Any = {
    "kind": "List",
    "items": [
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
            "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]},
        },
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.2"},
            "status": {"capacity": {"cpu": "8"}, "ready": True, "missing": None},
        },
    ],
    "users": [{"name": "myself", "user": {}}, {"name": "e2e", "user": {"username": "admin", "uid": 7}}],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("kind is {.kind}", "kind is List"),
        ("{['kind']}", "List"),
        ("{.users[0].name}", "myself"),
        ("{.users[-1].name}", "e2e"),
        ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{.items[0:1].metadata.name}", "127.0.0.1"),
        ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
        ('{.users[?(@.name=="e2e")].user.uid}', "7"),
        ("{.users[?(@.name!='e2e')].name}", "myself"),
        ("{.users[?(@.user.uid>=7)].name}", "e2e"),
        ("{.users[?(@.user.uid)].name}", "e2e"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.capacity.cpu}{"\\n"}{end}', "127.0.0.1\t4\n127.0.0.2\t8\n"),
        ("{.items[0].metadata.labels.kubernetes\\.io/hostname}", "127.0.0.1"),
        ("{.items[0]['metadata'].name}", "127.0.0.1"),
        ("{$.kind}{', '}{@.kind}", "List, List"),
        ("{.items[1].status.ready} {.items[1].status.missing}|{.nothing.here}", "true |"),
        ("{.users[1].user}", '{"username":"admin","uid":7}'),
        (".users[1].name", "e2e"),
        ("users[1].name", "e2e"),
        ("{range .users[*]}{range .user.*}[{@}]{end}{end}", "[admin][7]"),
        ("{..['name']}", "127.0.0.1 127.0.0.2 myself e2e"),
        ("{.items[0].metadata.labels.['kubernetes.io/hostname']}", "127.0.0.1"),
        ("{.items[?(@.metadata.labels.kubernetes\\.io/hostname=='127.0.0.1')].kind}", "None"),
        ("{.users[?(@.name=='a@b.c')].name}{.some-name}", ""),
        ("{range .users[*].name}{@}{.length}{end}", "myselfe2e"),
    ],
)
def test_a_template_gives_what_kubectl_gives(template: str, text: str) -> None:
    assert parse_template(template).text(DOCUMENT) == text


@pytest.mark.parametrize(
    "template",
    [
        "{.items[}",
        "{.items",
        "{range .items[*]}{.kind}",
        "{end}",
        "{.users[?(name)]}",
        '{.users[?(@.name=="a" extra)]}',
        "{.a b}",
    ],
)
def test_what_is_wrong_is_named(template: str) -> None:
    with pytest.raises(InvalidInput, match="jsonpath: "):
        parse_template(template)


NAMES = st.text(st.characters(codec="ascii", categories=("L", "N")) | st.sampled_from("-_/"), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_every_value_is_found_at_its_own_path(document: Any) -> None:
    for path, value in _leaves(document, ""):
        [found] = parse_path(path).values(document)
        assert found == value
        assert type(found) is type(value)


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    own = [(path or ".", value)]
    if isinstance(value, dict):
        return own + [leaf for name, each in value.items() for leaf in _leaves(each, f"{path}['{name}']")]
    if isinstance(value, list):
        return own + [leaf for place, each in enumerate(value) for leaf in _leaves(each, f"{path}[{place}]")]
    return own


@given(JSON, st.text(max_size=12))
def test_any_text_is_a_path_or_is_refused(document: Any, text: str) -> None:
    try:
        path = parse_path(text)
    except InvalidInput:
        return
    for value in path.values(document):
        json.dumps(value)

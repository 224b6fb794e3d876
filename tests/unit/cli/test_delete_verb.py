"""`slackwater delete`: by kind and name, or by files; nodes go to their own route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slackwater.cli import delete
from slackwater.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("what", "names", "expected"),
    [
        ("node", ["a", "b"], [("nodes", "a"), ("nodes", "b")]),
        ("node/a", ["b"], [("nodes", "a"), ("nodes", "b")]),
        ("node/a", ["node/b"], [("nodes", "a"), ("nodes", "b")]),
        ("eq/a", ["node/b", "c"], [("elasticquotas", "a"), ("nodes", "b"), ("elasticquotas", "c")]),
        ("colocationstrategy/gold", [], [("colocationstrategies", "gold")]),
    ],
)
def test_kinds_and_names_are_taken_as_get_takes_them(what: str, names: list[str], expected: Any) -> None:
    assert delete.targets(what, names, []) == expected


@pytest.mark.parametrize(
    ("what", "names", "files", "said"),
    [
        (None, [], [], "slackwater delete node NAME"),
        ("node/a", [], [Path("x.yaml")], "not both"),
        ("node", [], [], "slackwater delete node NAME"),
        ("pods", ["x"], [], "pods cannot be deleted; allowed: nodes, "),
        ("noed", ["x"], [], "did you mean 'node"),
    ],
)
def test_anything_else_is_refused_with_what_to_do(
    what: str | None, names: list[str], files: list[Path], said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        delete.targets(what, names, files)
    assert said in refused.value.message


def test_files_name_their_documents_themselves() -> None:
    assert delete.targets(None, [], [Path("x.yaml")]) is None


class Reader:
    """What the command asks of the server."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []

    def send(self, method: str, path: str, params: Any = None, body: object = None) -> Any:
        self.sent.append((method, path, params))
        return {"message": f"{path} done"}


def test_each_node_is_deleted_by_a_request_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    reader: Any = Reader()
    delete._delete_nodes(reader, ["a/b", "c"], dry_run=True)
    assert reader.sent == [("DELETE", f"/v1/nodes/{name}", {"dryRun": "true"}) for name in ("a%2Fb", "c")]
    assert capsys.readouterr().out.splitlines() == ["/v1/nodes/a%2Fb done", "/v1/nodes/c done"]


def test_a_resource_by_name_has_to_be_there_and_one_of_a_file_does_not(tmp_path: Path) -> None:
    [(is_needed, document)] = delete._documents([("podqos", "gold")], [])
    assert (is_needed, document.kind.name, document.name) == (True, "PodQOS", "gold")
    file = tmp_path / "x.yaml"
    file.write_text("kind: PodQOS\nmetadata: {name: gold}\n")
    assert [needed for needed, _ in delete._documents(None, [file])] == [False]

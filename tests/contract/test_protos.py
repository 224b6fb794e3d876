"""The gRPC contract is linted, keeps its promises, and its stubs are those of its protos."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from contracts import generate, protos


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The module without a repository around it, as in an archive."""
    return Path(shutil.copytree(protos.PROTOS, tmp_path / "proto"))


def edit(module: Path, file: str, before: str, after: str) -> None:
    path = module / "slackwater" / "v1" / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_the_protos_pass_the_linter_and_break_no_client() -> None:
    assert protos.lint() == []
    assert protos.breaks() == []


@pytest.mark.parametrize(
    ("file", "before", "after", "told"),
    [
        ("quantity.proto", "int64 cpu_milli = 1", "int32 cpu_milli = 1", "changed type"),
        ("offer.proto", "generation = 2", "generation = 29", "was deleted"),
        ("colocation_service.proto", "rpc GetNode(", "rpc FetchNode(", "was deleted"),
        ("node.proto", "LIVENESS_LOST = 3", "LIVENESS_LOST = 4", "was deleted"),
    ],
)
def test_a_change_that_breaks_clients_is_found(copy: Path, file: str, before: str, after: str, told: str) -> None:
    edit(copy, file, before, after)
    assert any(told in line for line in protos.breaks(copy))


def test_a_new_field_breaks_no_client(copy: Path) -> None:
    edit(copy, "offer.proto", "string node = 1;", "string node = 1;\n  // More.\n  string more = 15;")
    assert protos.breaks(copy) == []
    assert protos.lint(copy) == []


def test_a_field_without_a_comment_is_found(copy: Path) -> None:
    edit(copy, "offer.proto", "  // The node's name.\n", "")
    assert any("non-empty comment" in line for line in protos.lint(copy))


def test_a_baseline_that_was_built_is_one_that_nothing_breaks(copy: Path, tmp_path: Path) -> None:
    edit(copy, "offer.proto", "generation = 2", "generation = 29")
    assert protos.build(copy, tmp_path / "image.binpb") == []
    assert protos.breaks(copy, tmp_path / "image.binpb") == []
    assert protos.breaks(copy) != []


def test_drifted_stubs_are_reported(tmp_path: Path) -> None:
    for path, text in protos.stubs().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert generate.stub_differences(tmp_path) == []
    (tmp_path / protos.PACKAGE / "node_pb2.py").write_text("# edited\n")
    (tmp_path / protos.PACKAGE / "gone_pb2.py").write_text("")
    assert generate.stub_differences(tmp_path) == [
        "libs/slackwater/v1/node_pb2.py is out of date",
        "libs/slackwater/v1/gone_pb2.py is no longer generated: delete it",
    ]


def test_the_reference_page_has_every_call() -> None:
    page = protos.stubs()[protos.PAGE]
    assert "`WatchOffersRequest` → stream of `WatchOffersResponse`" in page


def test_the_committed_stubs_are_up_to_date() -> None:
    assert generate.stub_differences() == []

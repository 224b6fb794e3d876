"""`apply` and `diff` against a server that holds one NodeQOS."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.resources.diff import changes

POLICY = "kind: NodeQOS\nmetadata: {name: default}\nspec: {mode: observe}\n"


class Server(BaseHTTPRequestHandler):
    """Knows the mode only; refuses any but two."""

    mode = "throttle"

    def do_PUT(self) -> None:
        import json

        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        mode = body["spec"]["mode"]
        if mode not in ("throttle", "observe"):
            self._answer(422, {"code": "invalid_input", "detail": f"body.spec.mode: {mode!r} is not a mode"})
            return
        differs = changes({"spec": {"mode": Server.mode}}, {"spec": {"mode": mode}})
        if "dryRun=true" in self.path:
            self._answer(200, {"document": body, "changes": [each.model_dump() for each in differs]})
            return
        Server.mode = mode
        self._answer(200, body)

    def _answer(self, status: int, body: Any) -> None:
        import json

        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Server.mode = "throttle"
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(url: str, tmp_path: Path, verb: str, text: str, *more: str) -> Result:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return CliRunner().invoke(app, [verb, "-f", str(file), "--server", url, *more])


def test_diff_then_apply_then_nothing_is_left_to_do(url: str, tmp_path: Path) -> None:
    differs = run(url, tmp_path, "diff", POLICY)
    assert (differs.exit_code, differs.stdout) == (3, 'nodeqos/default spec.mode: "throttle" -> "observe"\n')
    dry = run(url, tmp_path, "apply", POLICY, "--dry-run")
    assert (dry.exit_code, dry.stdout, Server.mode) == (0, "nodeqos/default would be configured\n", "throttle")
    done = run(url, tmp_path, "apply", POLICY)
    assert (done.exit_code, done.stdout, Server.mode) == (0, "nodeqos/default configured\n", "observe")
    assert run(url, tmp_path, "apply", POLICY).stdout == "nodeqos/default unchanged\n"
    assert run(url, tmp_path, "diff", POLICY).exit_code == 0


def test_nothing_is_stored_when_any_document_is_wrong(url: str, tmp_path: Path) -> None:
    done = run(url, tmp_path, "apply", POLICY + "---\n" + POLICY.replace("observe", "hurry"))
    assert (done.exit_code, Server.mode) == (2, "throttle")
    assert "policy.yaml document 2: body.spec.mode: 'hurry' is not a mode" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "kind: Pod\n",
            "allowed: ArbitrationArgs, Autonomy, AvoidanceAction, ClusterColocationProfile, ColocationStrategy,",
        ),
        ("kind: NodeQOS\n", "metadata.name"),
        ("a: [\n", "is not YAML"),
        ("7", "kind"),
        ("- a\n", "document 1: ['a'] is not a document; it needs apiVersion, kind, metadata and spec"),
        ("", "policy.yaml: holds no document"),
        ("# only words\n---\n", "policy.yaml: holds no document"),
        ("kind: NodeQOS\nmetadata: {name: 7}\n", "metadata.name: 7 is not text; put it in quotes"),
        (
            "kind: NodeQOS\nmetadata: {name: 2026-01-05}\n",
            "metadata.name: 2026-01-05 is a date to YAML; put it in quotes",
        ),
        ("kind: NodeQOS\nmetadata: {name: a/b}\n", "metadata.name: 'a/b' is not a name"),
        ("kind: NodeQOS\nmetadata: {name: ..}\n", "metadata.name: '..' is not a name"),
        (POLICY.replace("observe", ".nan"), "spec.mode: nan is not allowed; a finite number"),
        (POLICY.replace("observe", "-.inf"), "spec.mode: -inf is not allowed; a finite number"),
        (POLICY.replace("observe", "2026-13-45"), "is not YAML"),
        (POLICY.replace("observe", "!!set {a}"), "spec.mode: {'a'} is a set to YAML"),
        (
            POLICY.replace("{mode: observe}", "&own {rules: [*own]}"),
            "policy.yaml: line 3: contains itself; write the value out",
        ),
        (POLICY + "spec: {mode: throttle}\n", "duplicate key 'spec'; remove one"),
        (POLICY.replace("observe", "observe, mode: throttle"), "duplicate key 'mode'; remove one"),
        ("[" * 5000, "is nested too deeply"),
    ],
)
def test_what_is_no_document_is_refused_with_its_place(url: str, tmp_path: Path, text: str, said: str) -> None:
    done = run(url, tmp_path, "apply", text)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_part_may_be_named_and_used_again(url: str, tmp_path: Path) -> None:
    text = POLICY.replace("metadata:", "metadata: &own").replace("{mode: observe}", "{mode: observe, a: *own, b: *own}")
    assert run(url, tmp_path, "apply", text).exit_code == 0


LEAVES = st.none() | st.integers() | st.text(max_size=3)
DOCUMENTS = st.dictionaries(
    st.sampled_from("abc"), st.recursive(LEAVES, lambda each: st.lists(each, max_size=2), max_leaves=5), max_size=3
)


@given(DOCUMENTS, DOCUMENTS)
def test_changes_are_those_of_the_way_back_turned_round(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert changes(one, one) == ()
    forth, back = changes(one, other), changes(other, one)
    assert [(each.field, each.before, each.after) for each in forth] == [
        (each.field, each.after, each.before) for each in back
    ]

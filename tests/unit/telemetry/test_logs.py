from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from slackwater.telemetry import logs
from slackwater.telemetry.log_limit import LineLimit
from slackwater.telemetry.spans import span


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    logs.route_to_standard_library()
    logging.captureWarnings(False)


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_own_and_foreign_lines_have_the_same_json_form(stream: io.StringIO) -> None:
    logs.configure("ingestion", form="json", stream=stream)
    logs.get_logger("own").info("window closed", node="n1", traceparent=TRACE)
    logging.getLogger("foreign").warning("late by %d s", 3, extra={"node": "n2"})
    own, foreign = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (own["event"], own["level"], own["service"], own["logger"]) == ("window closed", "info", "ingestion", "own")
    assert (own["trace_id"], own["span_id"]) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert (foreign["event"], foreign["node"], foreign["service"]) == ("late by 3 s", "n2", "ingestion")
    assert own["time"].endswith("Z")


def test_a_line_written_in_a_step_carries_its_trace_and_ids(stream: io.StringIO) -> None:
    logs.configure("agent", form="json", stream=stream)
    with span("agent converge", TRACE, {"node": "n7", "decision_id": "d1", "generation": 3}):
        logs.get_logger("own").info("limit written")
        logging.getLogger("foreign").warning("slow")
    logs.get_logger("own").info("after")
    inside, foreign, after = [json.loads(line) for line in stream.getvalue().splitlines()]
    for line in (inside, foreign):
        assert (line["trace_id"], line["span_id"]) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
        assert (line["node"], line["decision_id"]) == ("n7", "d1")
    assert not {"trace_id", "span_id", "node", "generation"} & after.keys()


def test_warnings_of_one_kind_are_counted_after_the_first_ones_of_a_minute(stream: io.StringIO) -> None:
    now = [0.0]
    logs.configure("x", form="json", stream=stream)
    [handler] = logging.getLogger().handlers
    handler.filters[:] = [LineLimit(lambda: now[0])]
    for sequence in range(8):
        logs.get_logger("own").warning("store away", sequence=sequence)
        logging.getLogger("foreign").warning("late by %d s", 3)
        logs.get_logger("own").info("report")
    now[0] = 60.0
    logs.get_logger("own").warning("store away", sequence=8)
    logging.getLogger("foreign").warning("late by %d s", 3)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["sequence"] for line in lines if line["event"] == "store away"] == [0, 1, 2, 3, 4, 8]
    assert [line.get("suppressed") for line in lines if line["event"] == "store away"] == [*[None] * 5, 3]
    assert [line.get("suppressed") for line in lines if line["event"] == "late by 3 s"] == [*[None] * 5, 3]
    assert len([line for line in lines if line["event"] == "report"]) == 8


def test_the_count_of_a_kind_that_has_ended_is_written_with_the_next_line_of_any_kind(stream: io.StringIO) -> None:
    now = [0.0]
    logs.configure("x", form="json", stream=stream)
    [handler] = logging.getLogger().handlers
    handler.filters[:] = [LineLimit(lambda: now[0], handler.emit)]
    for descriptor in range(1000):
        logging.getLogger("asyncio").error(f"socket.accept() out of system resource\nsocket: <fd={descriptor}>")
        logging.getLogger("asyncio").error(f"Task-{descriptor} was destroyed")
    now[0] = 62.0
    logs.get_logger("own").info("report")
    logs.get_logger("own").info("report")
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    accepts = [line for line in events if line["event"].startswith("socket.accept()")]
    assert [line.get("suppressed") for line in accepts] == [*[None] * 5, 994]
    assert len(events) == 2 * 6 + 2


def test_below_the_level_nothing_is_written_and_chatty_libraries_need_a_warning(stream: io.StringIO) -> None:
    logs.configure("x", level="warning", form="json", stream=stream)
    logs.get_logger("own").info("quiet")
    assert stream.getvalue() == ""
    logs.configure("x", level="info", form="json", stream=stream)
    logging.getLogger("uvicorn.error").info("Started server process")
    assert stream.getvalue() == ""
    logging.getLogger("uvicorn.error").warning("heard")
    assert "heard" in stream.getvalue()


def test_the_console_form_is_one_line_that_keeps_odd_values_readable(stream: io.StringIO) -> None:
    logs.configure("agent", form="console", stream=stream)
    logs.get_logger("own").warning("foreign writer", file="cpu.max", was="100000 100000", empty="")
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert line[8:].startswith(" warning agent: foreign writer file=cpu.max was='100000 100000' empty=''")
    assert "\x1b" not in line


def test_a_defect_keeps_its_traceback(stream: io.StringIO) -> None:
    logs.configure("agent", form="console", stream=stream)
    try:
        raise ZeroDivisionError("deliberate")
    except ZeroDivisionError:
        logs.get_logger("own").exception("failed")
    assert "agent: failed" in stream.getvalue().splitlines()[0]
    assert "ZeroDivisionError: deliberate" in stream.getvalue()


def test_logging_does_not_load_what_an_agent_cannot_afford() -> None:
    heavy = "rich numpy fastapi sqlalchemy opentelemetry.sdk"
    script = (
        "import sys; from slackwater.telemetry import logs, spans; logs.configure('agent')\n"
        f"print(*[name for name in '{heavy}'.split() if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, env=_paths())
    assert found.stdout.strip() == ""


def _paths() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}

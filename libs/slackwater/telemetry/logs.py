"""Logs: structlog and the standard library's logging in one stream, one line per event, on stderr.

The command line calls `configure` once per process. Modules use `log = get_logger(__name__)`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal, TextIO

from slackwater.telemetry.log_limit import LineLimit
from slackwater.telemetry.spans import CURRENT, span_id_of, trace_id_of


@contextmanager
def _without_rich() -> Iterator[None]:
    """Prevent structlog.dev from importing rich, which costs an agent 10 MB of memory and is not used."""
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment] # documented way to make an import fail
    try:
        yield
    finally:
        del sys.modules["rich"]


with _without_rich():
    import structlog

Form = Literal["auto", "console", "json"]
Level = Literal["debug", "info", "warning", "error"]
_CHATTY = ("uvicorn", "alembic", "asyncio", "nats", "sse_starlette", "httpx2", "httpcore2")
"""Libraries that log at level "info" what an operator does not need; shown from "warning" on."""
_FIRST = ("time", "level", "event", "service", "logger", "exception", "trace_id", "span_id")
_OF_SPAN = ("node", "decision_id", "event_id")
"""Attributes of the current span that log lines carry as fields."""
_COLOURS = {"debug": "\x1b[2m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}


def leave_out(logger: str, worth_saying: Callable[[logging.LogRecord], bool]) -> None:
    """Filter the records of a library's logger; `worth_saying` returns whether to keep a record. Idempotent."""
    logging.getLogger(logger).addFilter(worth_saying)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module. Event names are constants; variable data goes into fields."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger


def route_to_standard_library() -> None:
    """Send log lines to the standard library's logging; in effect until `configure` is called."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


route_to_standard_library()


def configure(service: str, level: Level = "info", form: Form = "auto", stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (default stderr): readable lines on a terminal, else JSON."""
    target = stream or sys.stderr
    console = form == "console" or (form == "auto" and target.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _Stamp(service),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    render: structlog.typing.Processor = (
        OneLine(target.isatty()) if console else structlog.processors.JSONRenderer(default=str)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(formatter)
    handler.addFilter(LineLimit(write=handler.emit))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.DEBUG if level == "debug" else logging.WARNING)


class _Stamp:
    """Adds the service, and the trace, span and ids of the current step or of the line's `traceparent` field."""

    def __init__(self, service: str) -> None:
        self._service = service

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event.setdefault("service", self._service)
        step = CURRENT.get()
        traceparent = event.pop("traceparent", None) or (step.traceparent if step is not None else None)
        if trace_id := trace_id_of(traceparent):
            event["trace_id"] = trace_id
            event["span_id"] = span_id_of(traceparent)
        if step is not None:
            for name in _OF_SPAN:
                if (value := step.attributes.get(name)) is not None:
                    event.setdefault(name, value)
        return event


class OneLine:
    """`12:00:01 warning ingestion: what happened key=value …`; the traceback of a defect follows on its own lines."""

    def __init__(self, colours: bool) -> None:
        self._colours = colours

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        level = str(event.get("level", method))
        clock = str(event.get("time", ""))[11:19]
        pairs = " ".join(f"{key}={_shown(value)}" for key, value in event.items() if key not in _FIRST)
        line = f"{clock} {level:7} {event.get('service', '')}: {event.get('event', '')} {pairs}".rstrip()
        if self._colours and level in _COLOURS:
            line = f"{_COLOURS[level]}{line}\x1b[0m"
        exception = event.get("exception")
        return f"{line}\n{exception}" if exception else line


def _shown(value: object) -> str:
    text = str(value)
    return repr(text) if not text or any(c.isspace() or c in "\"'=" for c in text) else text

"""The requests of JetStream's management interface that the bus sends."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from tests.support.jetstream.api_errors import (
    JetStreamError,
    Unmodelled,
    consumer_not_found,
    message_not_found,
    storage_differs,
    stream_differs,
    stream_not_found,
)
from tests.support.jetstream.consumer import StreamConsumer
from tests.support.jetstream.stream import MemoryStream, normalized

from slackwater.bus.codec.cloudevents import Message
from slackwater.model.time import Clock

Wanted = Mapping[str, Any]
_NEVER = "0001-01-01T00:00:00Z"
_IN_PLACE = ("name", "subjects", "storage", "discard", "max_bytes", "max_age", "max_msgs_per_subject", "compression",
             "duplicate_window", "max_consumers", "allow_direct")  # fmt: skip


class ServerStreams(Protocol):
    """The streams and consumers of a server."""

    @property
    def clock(self) -> Clock: ...
    @property
    def jetstreams(self) -> Mapping[str, MemoryStream]: ...
    def add_stream(self, name: str, config: Mapping[str, Any]) -> MemoryStream: ...
    def delete_stream(self, name: str) -> None: ...
    def subjects_changed(self) -> None: ...
    def consumers_of(self, stream: str) -> dict[str, StreamConsumer]: ...
    def new_consumer_name(self) -> str: ...
    def add_consumer(self, stream: MemoryStream, name: str, config: Mapping[str, Any]) -> StreamConsumer: ...
    def remove_consumer(self, consumer: StreamConsumer) -> None: ...
    def consumers_changed(self, stream: str) -> None: ...


class JetStreamApi:
    """Answers requests with what nats-server 2.15 answers, as far as the bus reads it."""

    def __init__(self, broker: ServerStreams) -> None:
        self._broker = broker
        self._operations: dict[tuple[str, ...], Callable[[list[str], Wanted], dict[str, Any]]] = {
            ("INFO",): self._account,
            ("STREAM", "CREATE"): self._create_stream,
            ("STREAM", "UPDATE"): self._update_stream,
            ("STREAM", "INFO"): self._stream_info,
            ("STREAM", "DELETE"): self._delete_stream,
            ("STREAM", "PURGE"): self._purge,
            ("STREAM", "MSG", "GET"): self._message,
            ("STREAM", "MSG", "DELETE"): self._remove_message,
            ("CONSUMER", "CREATE"): self._create_consumer,
            ("CONSUMER", "DURABLE", "CREATE"): self._create_consumer,
            ("CONSUMER", "INFO"): self._consumer_info,
            ("CONSUMER", "DELETE"): self._delete_consumer,
            ("CONSUMER", "LIST"): self._consumers,
        }

    def answer(self, tokens: list[str], body: bytes) -> dict[str, Any]:
        """Returns the answer to a request, given its subject after the prefix. Raises Unmodelled."""
        length = 3 if tuple(tokens[:3]) in self._operations else 2
        operation = self._operations.get(tuple(tokens[:length]))
        if operation is None:
            raise Unmodelled(f"the request {'.'.join(tokens)}")
        try:
            return operation(tokens[length:], json.loads(body) if body else {})
        except JetStreamError as refusal:
            return {"error": refusal.answer()}

    def _account(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        """An account without limits, as that of the embedded broker."""
        used = {"memory": 0, "file": 0}
        for stream in self._broker.jetstreams.values():
            used[stream.config["storage"]] += stream.bytes
        names_of_limits = (
            *("max_memory", "max_storage", "max_streams", "max_consumers", "max_ack_pending"),
            *("memory_max_stream_bytes", "storage_max_stream_bytes"),
        )
        return {
            "memory": used["memory"],
            "storage": used["file"],
            "streams": len(self._broker.jetstreams),
            "consumers": sum(len(self._broker.consumers_of(name)) for name in self._broker.jetstreams),
            "limits": {**dict.fromkeys(names_of_limits, -1), "max_bytes_required": False},
            "api": {"total": 0, "errors": 0},
        }

    def _create_stream(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        stream = self._broker.jetstreams.get(names[0])
        if stream is None:
            stream = self._broker.add_stream(names[0], wanted)
        elif any(normalized(wanted).get(key) != stream.config.get(key) for key in _IN_PLACE):
            raise stream_differs()
        return self._described(stream)

    def _update_stream(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        stream = self._stream(names[0])
        if wanted.get("storage", "file") != stream.config["storage"]:
            raise storage_differs()
        stream.configure({**stream.config, **wanted})
        self._broker.subjects_changed()
        return self._described(stream)

    def _stream_info(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        return self._described(self._stream(names[0]), wanted.get("subjects_filter"))

    def _delete_stream(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        self._stream(names[0])
        self._broker.delete_stream(names[0])
        return {"success": True}

    def _purge(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        return {"success": True, "purged": self._stream(names[0]).purge(wanted.get("seq"), wanted.get("filter"))}

    def _message(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        stream = self._stream(names[0])
        stream.expire(self._broker.clock.monotonic())
        last = wanted.get("last_by_subj")
        sequence = wanted.get("seq") if last is None else stream.last_on(last)
        kept = stream.messages.get(sequence or 0)
        if kept is None or sequence is None:
            raise message_not_found()
        message = {
            "subject": kept.message.subject,
            "seq": sequence,
            "data": base64.b64encode(kept.message.body).decode(),
            "time": _time(kept.at),
        }
        if kept.message.headers:
            message["hdrs"] = base64.b64encode(_header_block(kept.message)).decode()
        return {"message": message}

    def _remove_message(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        stream = self._stream(names[0])
        if wanted["seq"] not in stream.messages:
            raise message_not_found()
        stream.remove(wanted["seq"])
        return {"success": True}

    def _create_consumer(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        stream, config = self._stream(names[0]), wanted["config"]
        name = config.get("durable_name") or config.get("name") or self._broker.new_consumer_name()
        consumer = self._broker.consumers_of(stream.name).get(name)
        if consumer is None:
            consumer = self._broker.add_consumer(stream, name, config)
        else:
            consumer.update(config)
            self._broker.consumers_changed(stream.name)
        return consumer.info()

    def _consumer_info(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        consumer = self._broker.consumers_of(self._stream(names[0]).name).get(names[1])
        if consumer is None:
            raise consumer_not_found()
        return consumer.info()

    def _delete_consumer(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        consumer = self._broker.consumers_of(self._stream(names[0]).name).get(names[1])
        if consumer is None:
            raise consumer_not_found()
        self._broker.remove_consumer(consumer)
        return {"success": True}

    def _consumers(self, names: list[str], wanted: Wanted) -> dict[str, Any]:
        consumers = [consumer.info() for consumer in self._broker.consumers_of(self._stream(names[0]).name).values()]
        return {"total": len(consumers), "offset": 0, "limit": len(consumers), "consumers": consumers}

    def _stream(self, name: str) -> MemoryStream:
        stream = self._broker.jetstreams.get(name)
        if stream is None:
            raise stream_not_found()
        return stream

    def _described(self, stream: MemoryStream, pattern: str | None = None) -> dict[str, Any]:
        stream.expire(self._broker.clock.monotonic())
        kept = stream.messages
        state: dict[str, Any] = {
            "messages": len(kept),
            "bytes": stream.bytes,
            "first_seq": stream.first_sequence if stream.last_sequence else 0,
            "last_seq": stream.last_sequence,
            "first_ts": _time(kept[stream.first_sequence].at) if kept else _NEVER,
            "last_ts": _time(kept[next(reversed(kept))].at) if kept else _NEVER,
            "consumer_count": len(self._broker.consumers_of(stream.name)),
        }
        if pattern is not None:
            state["subjects"] = stream.counts(pattern) or None
        return {"config": {"name": stream.name, **stream.config}, "created": _time(stream.created), "state": state}


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _header_block(message: Message) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in message.headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()

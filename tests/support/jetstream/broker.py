"""The server: connections, subjects, streams and consumers, and the faults that a test or the world calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tests.support.broker import MemoryBroker, StreamRefusal
from tests.support.clock import LoopClock
from tests.support.jetstream.api import JetStreamApi
from tests.support.jetstream.connection import Receiver, ServerConnection
from tests.support.jetstream.consumer import StreamConsumer
from tests.support.jetstream.consumer_disk import ConsumerSnapshot
from tests.support.jetstream.pull_request import DELETED, PullRequest, pull_options
from tests.support.jetstream.stream import MemoryStream, StreamSnapshot
from tests.support.jetstream.subjects import matches_any
from tests.support.jetstream.timers import Timers
from tests.support.link import Link

from slackwater.bus.admin.broker_admin import ConsumerState
from slackwater.bus.admin.stream_setup import consumer_configs
from slackwater.bus.admin.streams import Topology, durable_names
from slackwater.bus.codec.cloudevents import Message
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock

SYNC_SECONDS = 10.0
"""sync_interval of slackwater.runtime.embedded_nats: what was stored later is lost with the power."""
_ACK, _NEXT = "$JS.ACK.", ["CONSUMER", "MSG", "NEXT"]
_API_WORDS, _API_PREFIX_TOKENS = frozenset({"STREAM", "CONSUMER"}), 2
_NO_RESPONDERS = {"Status": "503", "Description": "No Responders"}


class JetStreamBroker(MemoryBroker):
    """A nats-server for the real bus, with the streams of a topology declared. Everything happens at once: what takes
    time is the client's link. Its timers are those of the running event loop."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        topology: Topology | None = None,
        is_declared: bool = True,
        sync_seconds: float = SYNC_SECONDS,
    ) -> None:
        super().__init__(clock=clock or LoopClock(), topology=topology)
        self.timers = Timers()
        self._api = JetStreamApi(self)
        self._sync_seconds = sync_seconds
        self._syncs = False
        self._held: list[Callable[[], None]] | None = None
        self._connections: dict[int, ServerConnection] = {}
        self._numbers = 0
        self._js_consumers: dict[str, dict[str, StreamConsumer]] = {}
        self._interest: dict[str, dict[str, list[StreamConsumer]]] = {}
        self._keepers: dict[str, MemoryStream | None] = {}
        self._routes: dict[str, list[str]] = {}
        self._synced_streams: dict[str, StreamSnapshot] = {}
        self._synced_consumers: dict[tuple[str, str], ConsumerSnapshot] = {}
        self._declares = is_declared
        if not is_declared:
            self._streams.clear()
        for stream in self._streams.values():
            self._watch_removals(stream)

    # connections

    @property
    def away(self) -> bool:
        """Whether the server cannot be reached. Setting it ends all connections; it keeps everything."""
        return self._is_away

    @away.setter
    def away(self, is_away: bool) -> None:
        self._is_away = is_away
        if is_away:
            self._end_connections()

    def connect(self, name: str, link: Link, receiver: Receiver) -> ServerConnection:
        """Accept a connection. Raises Unavailable while the server is down."""
        if self.away or self._held is not None:
            raise Unavailable("the broker is down: connection refused, or no answer")
        if not self._syncs:
            self._begin()
        self._numbers += 1
        connection = ServerConnection(self._numbers, name, link, receiver, self._ended)
        self._connections[connection.number] = connection
        link.on_close(connection.close)
        return connection

    def _begin(self) -> None:
        """Declare the consumers and begin to sync, now that there is an event loop."""
        self._syncs = True
        self.timers.at(self.timers.now() + self._sync_seconds, self._sync_regularly)
        if self._declares:
            for stream in self._streams.values():
                self._declare_consumers(stream)

    def _declare_consumers(self, stream: MemoryStream) -> None:
        for name, spec in self.topology.consumers.items():
            if self.topology.stream_of(name) == stream.name:
                for config in consumer_configs(name, spec):
                    self.add_consumer(stream, str(config.durable_name), config.as_dict())

    def pinged(self, connection: ServerConnection) -> None:
        """Answer a ping."""
        if self._held is not None:
            self._held.append(partial(self.pinged, connection))
        elif connection.is_open:
            connection.back.send(connection.receiver.pong)

    def _ended(self, connection: ServerConnection) -> None:
        self._connections.pop(connection.number, None)

    def _end_connections(self) -> None:
        for connection in tuple(self._connections.values()):
            connection.reset()
        for consumers in self._js_consumers.values():
            for consumer in consumers.values():
                consumer.drop_requests()

    # subjects

    def receive(
        self, connection: ServerConnection, subject: str, reply: str, headers: Mapping[str, str] | None, body: bytes
    ) -> None:
        """Handle one message of a client."""
        if self._held is not None:
            self._held.append(partial(self.receive, connection, subject, reply, headers, body))
            return
        if self.away or not connection.is_open:
            return
        if subject.startswith(_ACK):
            self._acknowledge(subject, body)
            if reply:  # the confirmation that it has been carried out
                connection.deliver(reply, reply, "", None, b"")
            return
        keeper = self._keepers.get(subject)
        if keeper is None and subject not in self._keepers:
            keeper = self._keepers[subject] = self._keeper(subject)
        if keeper is not None:
            self._store_for(connection, keeper, Message(subject, headers or {}, body), reply)
            return
        if self._is_request(connection, subject, reply, body) or self._relayed(subject, headers, body):
            return
        if reply:
            connection.deliver(reply, reply, "", _NO_RESPONDERS, b"")

    def _store_for(self, connection: ServerConnection, stream: MemoryStream, message: Message, reply: str) -> None:
        before = stream.last_sequence
        try:
            sequence = self.store(stream.name, message)
        except StreamRefusal as refusal:
            text = json.dumps({"error": refusal.refused.answer(), "stream": stream.name, "seq": 0})
        except Unavailable:
            return  # as on a full disk: no answer at all
        else:
            more = "" if sequence > before else ',"duplicate": true'
            text = f'{{"stream":"{stream.name}","seq":{sequence}{more}}}'
        if reply:
            connection.deliver(reply, reply, "", None, text.encode())

    def stored(self, stream: MemoryStream, sequence: int, message: Message) -> None:
        super().stored(stream, sequence, message)
        for consumer in self._interested(stream.name, message.subject):
            consumer.added(sequence)

    def relay(self, message: Message) -> int:
        """Deliver a message that no stream keeps to the current subscribers; returns their number."""
        return sum(
            connection.relay(message.subject, "", message.headers, message.body)
            for connection in tuple(self._connections.values())
        )

    def _relayed(self, subject: str, headers: Mapping[str, str] | None, body: bytes) -> bool:
        return self.relay(Message(subject, headers or {}, body)) > 0

    def _keeper(self, subject: str) -> MemoryStream | None:
        return next((stream for stream in self._streams.values() if matches_any(stream.subjects, subject)), None)

    def _is_request(self, connection: ServerConnection, subject: str, reply: str, body: bytes) -> bool:
        tokens = self._route(subject)
        if not tokens:
            return False
        if tokens[:3] == _NEXT:
            consumer = self._js_consumers.get(tokens[3], {}).get(tokens[4])
            if consumer is None:
                return False
            consumer.pull(PullRequest(connection, reply, pull_options(body), self.timers.now()))
            return True
        answer = self._api.answer(tokens, body)
        connection.deliver(reply, reply, "", None, json.dumps(answer).encode())
        return True

    def _route(self, subject: str) -> list[str]:
        """Returns the request in a subject of the API, whatever prefix an account gives it; else nothing."""
        request = self._routes.get(subject)
        if request is None:
            tokens = subject.split(".")
            at = next((place for place, token in enumerate(tokens) if token in _API_WORDS), 0)
            request = tokens[at:] if at == _API_PREFIX_TOKENS else []
            if request[:3] == _NEXT:
                self._routes[subject] = request
        return request

    def _acknowledge(self, subject: str, body: bytes) -> None:
        tokens = subject.split(".")
        consumer = self._js_consumers.get(tokens[2], {}).get(tokens[3])
        if consumer is not None:
            consumer.acknowledge(int(tokens[5]), int(tokens[6]), body)

    # streams and consumers

    @property
    def jetstreams(self) -> Mapping[str, MemoryStream]:
        """Returns the streams by name."""
        return self._streams

    def add_stream(self, name: str, config: Mapping[str, Any]) -> MemoryStream:
        """Create an empty stream."""
        stream = self._streams[name] = MemoryStream(name, config, self._unique_now())
        self._watch_removals(stream)
        self.subjects_changed()
        return stream

    def subjects_changed(self) -> None:
        """Look up anew which stream keeps which subject."""
        self._keepers.clear()
        self._interest.clear()

    def consumers_changed(self, stream: str) -> None:
        """Look up anew which consumers read which subject of a stream."""
        self._interest.pop(stream, None)

    def consumers_of(self, stream: str) -> dict[str, StreamConsumer]:
        """Returns the consumers of a stream by name."""
        return self._js_consumers.setdefault(stream, {})

    def new_consumer_name(self) -> str:
        self._numbers += 1
        return f"ephemeral-{self._numbers}"

    def add_consumer(self, stream: MemoryStream, name: str, config: Mapping[str, Any]) -> StreamConsumer:
        """Create a consumer at the start that its configuration names."""
        stream.expire(self.clock.monotonic())
        consumer = StreamConsumer(stream, name, config, self.timers, self.clock.now(), self.remove_consumer)
        self.consumers_of(stream.name)[name] = consumer
        self.consumers_changed(stream.name)
        return consumer

    def remove_consumer(self, consumer: StreamConsumer, status: tuple[int, str] | None = DELETED) -> None:
        """Delete a consumer; its waiting requests end with `status`."""
        own = self.consumers_of(consumer.stream.name)
        if own.get(consumer.name) is consumer:
            del own[consumer.name]
        self.consumers_changed(consumer.stream.name)
        consumer.end(status)

    def consumer(self, name: str) -> StreamConsumer:
        """Returns a consumer by the broker's name of it. Raises KeyError."""
        return next(own[name] for own in self._js_consumers.values() if name in own)

    def consumer_state(self, name: str) -> ConsumerState:
        parts = [
            own
            for durable in durable_names(name, self.topology.consumers[name])
            if (own := self.consumers_of(self.topology.stream_of(name)).get(durable)) is not None
        ]
        pending = sum(part.num_pending for part in parts)
        unsettled = sum(len(part.unacknowledged) for part in parts)
        redelivered = sum(len(part.deliveries) for part in parts)
        return ConsumerState(name, self.topology.stream_of(name), pending, unsettled, redelivered)

    def settled_up_to(self, name: str) -> int:
        return self.consumer(name).settled_up_to()

    def deliveries_of(self, name: str, sequence: int) -> int:
        return self.consumer(name).deliveries.get(sequence, 1)

    def _interested(self, stream: str, subject: str) -> list[StreamConsumer]:
        by_subject = self._interest.setdefault(stream, {})
        found = by_subject.get(subject)
        if found is None:
            consumers = self.consumers_of(stream).values()
            found = by_subject[subject] = [c for c in consumers if matches_any(c.filters, subject)]
        return found

    def _watch_removals(self, stream: MemoryStream) -> None:
        def removed(sequence: int, subject: str) -> None:
            for consumer in self._interested(stream.name, subject):
                consumer.removed(sequence)

        stream.removed = removed

    def _unique_now(self) -> datetime:
        """Returns the server's time, different for each stream: it names the stream's incarnation."""
        self._numbers += 1
        return self.clock.now() + timedelta(microseconds=self._numbers % 1000)

    # the disk

    def _sync_regularly(self) -> None:
        self.timers.at(self.timers.now() + self._sync_seconds, self._sync_regularly)
        self.sync()

    def sync(self) -> None:
        """Write everything to the disk, as the server does every sync interval."""
        for name, stream in self._streams.items():
            known = self._synced_streams.get(name)
            if (
                known is None
                or known.last_sequence != stream.last_sequence
                or len(known.messages) != len(stream.messages)
            ):
                self._synced_streams[name] = stream.snapshot()
            for consumer in self.consumers_of(name).values():
                if not consumer.is_ephemeral:
                    self._synced_consumers[name, consumer.name] = consumer.snapshot()

    # faults

    def kill(self) -> None:
        """SIGKILL: the page cache survives, and with it file streams and their consumers; memory streams do not."""
        self.away = True
        for name, stream in tuple(self._streams.items()):
            if stream.is_in_memory:
                self._remove_stream(name, None)
            else:
                stream.restore(stream.snapshot(), self.clock.monotonic())  # only ids of stored messages stay known
            for consumer in tuple(self.consumers_of(name).values()):
                if consumer.is_ephemeral or consumer.is_in_memory:
                    self.remove_consumer(consumer, None)
                else:
                    consumer.discard_unflushed()

    def start(self) -> None:
        """Accept connections again."""
        self.away = False

    def restart(self) -> None:
        """Kill and start at once."""
        self.kill()
        self.start()

    def power_failure(self, *, keeps_consumers: bool = False) -> None:
        """What was not synced is lost: the tail of file streams, with it the removal of older messages, and what
        consumers did since, unless their files happened to be written (`keeps_consumers`). The server is down.
        """
        self.kill()
        for name, stream in tuple(self._streams.items()):
            synced = self._synced_streams.get(name, StreamSnapshot({}, 0))
            stream.restore(synced, self.clock.monotonic())
            for consumer in tuple(self.consumers_of(name).values()):
                known = self._synced_consumers.get((name, consumer.name))
                if keeps_consumers:
                    consumer.restore(consumer.snapshot())
                elif known is None:
                    self.remove_consumer(consumer, None)
                else:
                    consumer.restore(known)

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, and nothing is handled."""
        self._held = self._held or []
        self.timers.is_held = True

    def resume(self) -> None:
        """SIGCONT: what has arrived meanwhile is handled, and what has become due happens."""
        held, self._held = self._held or [], None
        for handle in held:
            handle()
        self.timers.is_held = False
        self.timers.catch_up()

    def rewind_consumer(self, name: str) -> None:
        """The consumer's state on the disk is behind: what it delivered and saw acknowledged since is forgotten."""
        consumer = self.consumer(name)
        known = self._synced_consumers.get((consumer.stream.name, name))
        if known is not None:
            consumer.restore(known)

    def lose_consumer(self, name: str) -> None:
        """Delete a consumer: its reader must declare it again, and it starts where its declaration says."""
        self.remove_consumer(self.consumer(name))

    def delete_stream(self, name: str) -> None:
        """Delete a stream with its consumers."""
        self._remove_stream(name, DELETED)

    def begin_anew(self, stream: str) -> None:
        config = self._streams[stream].config
        self.delete_stream(stream)
        self._declare_consumers(self.add_stream(stream, config))

    def disconnect(self, name: str) -> None:
        """End the connections of one client, by its name (with a suffix for the bulk connection)."""
        for connection in tuple(self._connections.values()):
            if connection.name in (name, f"{name}-bulk"):
                connection.reset()

    def _remove_stream(self, name: str, status: tuple[int, str] | None) -> None:
        for consumer in tuple(self.consumers_of(name).values()):
            self.remove_consumer(consumer, status)
        self._streams.pop(name, None)
        self._synced_streams.pop(name, None)
        for key in [key for key in self._synced_consumers if key[0] == name]:
            del self._synced_consumers[key]
        self.subjects_changed()

"""A tiny OTLP/HTTP receiver: keeps every span that processes export to it."""

from __future__ import annotations

import gzip
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Seen:
    """One exported span."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    service: str
    failed: bool
    attributes: Mapping[str, str]


@dataclass
class Receiver:
    """What has arrived so far."""

    url: str = ""
    spans: list[Seen] = field(default_factory=list)

    def traces(self) -> dict[str, list[Seen]]:
        found: dict[str, list[Seen]] = defaultdict(list)
        for span in list(self.spans):
            found[span.trace_id].append(span)
        return found

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = {a.key: a.value.string_value for a in resource.resource.attributes}["service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {
                        a.key: a.value.string_value or str(a.value.int_value or a.value.double_value)
                        for a in span.attributes
                    }
                    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                    self.spans.append(Seen(span.name, *ids, service, span.status.code == 2, attributes))


@contextmanager
def receiving() -> Iterator[Receiver]:
    """It listens on a free port of this machine while the context is open."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.take(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

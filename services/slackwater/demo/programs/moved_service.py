"""The HTTP service that is moved: answers with the cgroup instance that it runs in, and its process.

    python -m slackwater.demo.programs.moved_service --port PORT --owner PID

Ends when the process PID is gone, because a pod that an agent started outlives the agent and the demo.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

_OWNER_SECONDS: Final = 0.5
_INSTANCE: Final = re.compile(r"/slackwater-([^/\n]+)")


def instance_of(cgroups: str) -> str:
    """Returns the instance whose cgroup a process is in, from the text of /proc/PID/cgroup; empty: of none."""
    found = _INSTANCE.search(cgroups)
    return found[1] if found else ""


class PlaceHandler(BaseHTTPRequestHandler):
    """Says where it runs, with every answer."""

    text: bytes = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.text)))
        self.end_headers()
        self.wfile.write(self.text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Writes nothing: requests come fifty times a second."""


def _end_with(owner: int) -> None:
    while Path(f"/proc/{owner}").exists():
        time.sleep(_OWNER_SECONDS)
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description="Slackwater's demo: the service that is moved.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--owner", type=int, required=True)
    given = parser.parse_args()
    PlaceHandler.text = f"{instance_of(Path('/proc/self/cgroup').read_text())} {os.getpid()}\n".encode()
    threading.Thread(target=_end_with, args=(given.owner,), daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", given.port), PlaceHandler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())

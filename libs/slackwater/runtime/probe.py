"""A health check for containers: `python -m slackwater.runtime.probe [--wait SECONDS]
http://127.0.0.1:8460/readyz`.

With `--wait` it retries until the answer is 200, for servers whose own image has no HTTP client.
The image has no curl, and the slackwater command loads too slowly for a probe. Standard library
only.
"""

from __future__ import annotations

import argparse
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

TIMEOUT_SECONDS = 2.5
PAUSE_SECONDS = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when the address answers 200 (in time), else prints one line with the actual answer
    and returns 1.
    """
    parser = argparse.ArgumentParser(prog="probe", description="Check the health endpoint at an address.")
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("url", type=_http)
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.wait
    while (complaint := ask(options.url)) is not None:
        if time.monotonic() >= deadline:
            sys.stderr.write(f"{options.url}: {complaint}\n")
            return 1
        time.sleep(PAUSE_SECONDS)
    return 0


def ask(url: str) -> str | None:
    """Returns None when the answer is 200, else a description of it."""
    context = ssl.create_default_context()
    context.check_hostname = False  # the probe checks its own container's availability, not its identity
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS, context=context) as answer:  # noqa: S310 - see _http
            answer.read()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read(2000).decode(errors='replace')}"
    except OSError as error:
        return str(error)
    return None


def _http(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address like http://127.0.0.1:8460/readyz")
    return text


if __name__ == "__main__":
    sys.exit(main())

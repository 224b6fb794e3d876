"""A health check for containers: `python -m slackwater.runtime.probe http://127.0.0.1:8460/readyz`.

The image has no curl, and the command line takes longer to load than a probe should. Standard library only.
"""

from __future__ import annotations

import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence

TIMEOUT_SECONDS = 2.5


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when the address answers 200, else 1 with one line that says what came instead."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1 or not given[0].startswith(("http://", "https://")):
        sys.stderr.write("usage: python -m slackwater.runtime.probe http://127.0.0.1:8460/readyz\n")
        return 2
    context = ssl.create_default_context()
    context.check_hostname = False  # it asks its own container: what is proved is that it answers
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(given[0], timeout=TIMEOUT_SECONDS, context=context) as answer:  # noqa: S310 - checked above
            answer.read()
    except urllib.error.HTTPError as error:
        sys.stderr.write(f"{given[0]}: {error.code} {error.read(2000).decode(errors='replace')}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{given[0]}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

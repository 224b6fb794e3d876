"""Run a command that ends when its parent ends, however that happens.

    python -m slackwater.demo.tether CMD…

Asks the kernel for SIGTERM at the parent's death (Linux), then becomes the command; the request survives exec.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from slackwater.runtime.parent_death import die_with_parent


def main() -> NoReturn:
    parent = os.getppid()
    die_with_parent()
    if os.getppid() != parent:  # it died before the request was made
        sys.exit(1)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()

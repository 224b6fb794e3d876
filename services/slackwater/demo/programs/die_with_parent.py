"""Run a command that is terminated when its parent exits, for any reason.

    python -m slackwater.demo.programs.die_with_parent CMD…

Requests SIGTERM at the parent's death from the kernel (Linux) and executes the command; the setting survives exec.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from slackwater.runtime.parent_death import die_with_parent


def main() -> NoReturn:
    parent = os.getppid()
    die_with_parent()
    if os.getppid() != parent:  # the parent exited before the request took effect
        sys.exit(1)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()

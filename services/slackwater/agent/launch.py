"""A process that runs one described workload: `python -m slackwater.agent.launch FILE --uid UID`, started by the agent.

It is the leader of a session of its own, and lives on when the agent ends.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from slackwater.agent.adapters.linux.workload_files import read_template
from slackwater.agent.command import run_template
from slackwater.model.errors import SlackwaterError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until the command ends; its exit code, or 1 if it could not be started."""
    parser = argparse.ArgumentParser(prog="python -m slackwater.agent.launch", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--uid", required=True, help="of the pod")
    parser.add_argument("--digest", required=True, help="of the file that is meant")
    parser.add_argument("--state-dir", required=True, type=Path)
    parser.add_argument("--instance", required=True, help="whose cgroups it enters")
    parser.add_argument("--begins-by", required=True, type=float, help="on the monotonic clock")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    labels = dict(label.partition("=")[::2] for label in options.label)
    try:
        template = read_template(options.file)
        if template.digest != options.digest:
            sys.stderr.write(f"{options.file}: was changed after the start was decided\n")
            return 1
        return run_template(template, options.state_dir, options.instance, options.uid, labels, options.begins_by)
    except (SlackwaterError, OSError) as error:
        sys.stderr.write(f"{options.file.stem}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())

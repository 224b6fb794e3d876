"""`python -m slackwater.cli`: the same as the `slackwater` command."""

from __future__ import annotations

from slackwater.cli.program import main

main()

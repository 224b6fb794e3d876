"""`python -m slackwater.agent`."""

from __future__ import annotations

import sys

from slackwater.agent.process import main

sys.exit(main())

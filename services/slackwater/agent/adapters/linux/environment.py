"""The environment of what the agent starts: a short list of variables, and what the workload declares itself.

The agent's own environment names its broker, its user there and its settings, and may hold a password. None of it
belongs to a workload.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

PASSED_ON: Final = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"})
_LOCALE = "LC_"
_OF_PYTHON: Final = frozenset({"PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"})


def workload_environment(declared: Mapping[str, str], own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the whole environment of a workload that declares these variables."""
    passed = {name: value for name, value in own.items() if name in PASSED_ON or name.startswith(_LOCALE)}
    return {"PATH": os.defpath, **passed, **declared}


def supervisor_environment(own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment of the process that runs a workload, which has to find this program: the workload, a
    process of the same user, can read it.
    """
    return workload_environment({name: own[name] for name in _OF_PYTHON & own.keys()}, own)

"""Labels by which services see which workload files a node has, and which pod was started from one; and digests."""

from __future__ import annotations

import hashlib
from typing import Final

OFFERED_LABEL: Final = "workload.slackwater.io/"
"""Prefix of the node labels that name the workloads a node can start; the value is the digest of the file."""
TEMPLATE_LABEL: Final = "slackwater.io/workload-digest"
"""Label of a pod that was started from a file: the digest of that file. Its workload is the file's name."""
START_LABEL: Final = "slackwater.io/start"
"""Label of a pod that was started by request: the id of the request."""

_DIGITS: Final = 16


def digest_of(content: bytes) -> str:
    """The digest of a file's content, short enough for a label."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def offered_label(workload: str) -> str:
    """Returns the node label whose value is the digest of this workload's file."""
    return f"{OFFERED_LABEL}{workload}"

"""Names that resources of every kind share."""

from __future__ import annotations

from typing import Final

API_VERSION: Final = "slackwater.io/v1alpha1"
CLUSTER: Final = "default"
"""Name of the document of a kind that is for the whole cluster."""
BY_SETTINGS: Final = "settings of the service"
"""Author of a document that is made of settings. No token has this name: it contains blanks."""
CLUSTER_AUTHOR: Final = "kubernetes"
"""Author of documents that come from custom resources, and the name of the token with which they are stored."""

"""Reports the results of snapshots to log and metrics."""

from __future__ import annotations

from slackwater.model.errors import SlackwaterError
from slackwater.prediction.metrics import PredictionMetrics
from slackwater.prediction.usecases.partition_store import Restored
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


class SnapshotReports:
    """Callbacks of Shares and KeepSnapshots."""

    def __init__(self, metrics: PredictionMetrics) -> None:
        self._metrics = metrics

    def restored(self, restored: Restored) -> None:
        """Reports a restored partition, and the parts of its snapshot that could not be used."""
        for reason in restored.refused:
            self._metrics.snapshot("refused")
            log.warning("snapshot is not usable", reason=reason)
        for reason in restored.anew:
            log.warning("model begins anew", reason=reason)

    def failed(self, error: SlackwaterError) -> None:
        """Reports a snapshot that was not stored."""
        self._metrics.snapshot("failed")
        log.warning("snapshot was not kept", reason=error.message)

    def kept(self) -> None:
        """Reports a stored round of snapshots."""
        self._metrics.snapshot("kept")

"""What became of snapshots, for log and metrics."""

from __future__ import annotations

from slackwater.model.errors import SlackwaterError
from slackwater.prediction.adapters.metrics import PredictionMetrics
from slackwater.prediction.usecases.state import Restored
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


class SnapshotReports:
    """The callbacks of Shares and KeepSnapshots."""

    def __init__(self, metrics: PredictionMetrics) -> None:
        self._metrics = metrics

    def restored(self, found: Restored) -> None:
        """A partition was taken up, with or without a part of its snapshot."""
        for reason in found.refused:
            self._metrics.snapshot("refused")
            log.warning("snapshot is not usable", reason=reason)
        for reason in found.anew:
            log.warning("model begins anew", reason=reason)

    def failed(self, error: SlackwaterError) -> None:
        """A snapshot was not kept."""
        self._metrics.snapshot("failed")
        log.warning("snapshot was not kept", reason=error.message)

    def kept(self) -> None:
        """A round of snapshots was kept."""
        self._metrics.snapshot("kept")

"""Tunes Python's cyclic garbage collector for batch processing."""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 100_000, 20, 50


def tune_gc() -> None:
    """Freeze existing objects and raise the threshold. Call once when everything is built.

    A batch of reports is tens of thousands of objects that die with the batch and form no cycles.
    With the default threshold of 700 the collector traverses them repeatedly while they are
    created, which was most of the cost of decoding. Cycles are still collected, every hundred
    thousand objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)

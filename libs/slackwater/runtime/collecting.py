"""Python's cycle collector, told what kind of program this is."""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 100_000, 20, 50


def collect_rarely() -> None:
    """Call once when everything is built: what exists now stays for good and need not be looked at again.

    A batch of reports is tens of thousands of objects that all die with the batch, without a cycle among them. With
    the usual threshold of 700 the collector walks them over and over while they are made: that was most of the cost
    of decoding. Cycles are still found, every hundred thousand objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)

"""Wrong versions of the console."""

from __future__ import annotations

from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import Edit

SHOWN, STREAMED = "the console shows the true state", "streams show events once"
CONSOLE = (
    Mutant(
        "stream resumes one event early",
        "the id of an event is the position before it, so that a reader that resumes sees it again",
        (
            Edit(
                "console.edge.stream:_shown",
                "positions[item.stream] = item.sequence",
                "positions[item.stream] = item.sequence - 1",
            ),
        ),
        (STREAMED,),
        seed=24,
    ),
    Mutant(
        "console records half a batch",
        "of the decisions that arrive together the console stores the first",
        (
            Edit(
                "console.usecases.record_events:RecordEvents.decision_recorded",
                "for e in events",
                "for e in events[:1]",
            ),
        ),
        (SHOWN,),
        seed=24,
    ),
)

"""Wrong versions of what joins reports and windows with the pods that they count by. Tests find them."""

from __future__ import annotations

from tests.world.mutants.mutant import guard

_ROSTERS = "unit/bus/test_rosters.py"
_FAST = "unit/bus/test_fast_decode.py"
_WINDOWS = "unit/events/test_window_columns.py"
ROSTERS = (
    guard(
        "roster guessed",
        "a report is joined with any roster of its node",
        "bus.rosters.known_rosters:KnownRosters.find",
        "if roster.digest == digest:",
        "if digest:",
        _ROSTERS,
    ),
    guard(
        "roster after its report",
        "a report may be published before the roster that it counts by is stored",
        "bus.rosters.roster_publisher:RosterPublisher.body",
        "await self._store(_rostered(event, slot.roster, number, node.last))",
        "asyncio.ensure_future(self._store(_rostered(event, slot.roster, number, node.last)))",
        _ROSTERS,
    ),
    guard(
        "places of a report off by one",
        "the numbers of a pod are those of the pod before it",
        "events.report_columns:usages_of",
        "rows = zip(described, usages,",
        "rows = zip((*described[1:], *described[:1]), usages,",
        _ROSTERS,
        _FAST,
    ),
    guard(
        "place of an unread limit off by one",
        "the limit of another pod counts as unread",
        "events.report_columns:usages_of",
        "unread=unread.get(place),",
        "unread=unread.get(place + 1),",
        _ROSTERS,
    ),
    guard(
        "places of unknown pods closed up",
        "a pod that this version does not know shifts the numbers of those behind it",
        "events.rosters:Roster.described",
        "return [pods.get(uid) for uid in self.uids]",
        "return [*pods.values(), *[None] * (len(self.uids) - len(pods))]",
        "unit/events/test_unknown_values.py",
    ),
    guard(
        "columns of any length",
        "a report may have fewer numbers than its roster has pods",
        "events.report_columns:check",
        "if not lengths <= {count, min(count, 1)}:",
        "if False:",
        _ROSTERS,
    ),
    guard(
        "own roster not compared",
        "a report is joined with a roster that it carries and does not name",
        "events.usage_reported:UsageReported.joined",
        'if roster.digest != columns["roster"]:',
        "if False:",
        _ROSTERS,
    ),
    guard(
        "rosters not published again",
        "a broker that has lost its rosters gets them a minute later",
        "bus.rosters.roster_publisher:RosterPublisher.invalidate",
        "slot.stored_at_seconds = None",
        "pass",
        _ROSTERS,
    ),
    guard(
        "roster of an earlier boot",
        "an agent that restarted between roster and report does not say again what runs",
        "bus.rosters.roster_publisher:_Node.is_news",
        "if self.last is None or report.boot_epoch != self.boot_epoch:",
        "if self.last is None:",
        _ROSTERS,
    ),
    guard(
        "late report takes a roster back",
        "a report that waited longer than its successors makes its roster the last one",
        "bus.rosters.roster_publisher:_Node.note",
        "if report.boot_epoch != self.boot_epoch or report.sequence >= self.sequence:",
        "if True:",
        _ROSTERS,
    ),
    guard(
        "report waits for ever",
        "a report whose roster does not come is delivered again and again",
        "bus.consume.settlement:Settler._await_roster",
        "if self._counted(delivery) < min(ROSTER_DELIVERIES, self._spec.max_deliver):",
        "if True:",
        _ROSTERS,
    ),
    guard(
        "unit forgotten",
        "memory in pages is taken for bytes",
        "events.report_columns:table_of",
        "if columns.unit > 1:",
        "if False:",
        _ROSTERS,
        _FAST,
    ),
    guard(
        "unit of arrays forgotten",
        "memory in pages is taken for bytes where reports are stored",
        "events.pod_columns:_tables",
        "if sent.unit > 1:",
        "if False:",
        _FAST,
    ),
    guard(
        "columns of windows of any length",
        "a window may have fewer values than pods",
        "events.window_columns:WindowedPods.__init__",
        'if length not in {1, count} and (length or name != "labels"):',
        "if False:",
        _WINDOWS,
    ),
    guard(
        "unknown pods of windows folded",
        "a window with a pod that this version does not know is folded by its columns",
        "cluster.fold:_window_block",
        "if not isinstance(pods, WindowedPods) or pods.is_partial:",
        "if not isinstance(pods, WindowedPods):",
        _WINDOWS,
    ),
)

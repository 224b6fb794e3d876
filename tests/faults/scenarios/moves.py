"""kill -9 of descheduler, migration and agents at every step of a move, on PostgreSQL and NATS: the ledger is clean."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import httpx2
from nats.errors import Error as NatsError
from tests.faults import move_machine as machine
from tests.faults.audit import messages
from tests.faults.halts import VARIABLE, HaltSwitch
from tests.faults.ledger import Key, Ledger, Outcome, read
from tests.faults.move_halts import BESIDE
from tests.faults.move_points import PODS, CrashPoint, Story
from tests.faults.oracle import compare
from tests.faults.scenario import Result, Strictness
from tests.faults.site import Site, harness_bus, site
from tests.faults.supervisor import Program, until

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.model.workload_labels import TEMPLATE_LABEL
from slackwater.podmigration.jobs import MoveOutcome

QUICK_MOVES = {
    "SLACKWATER_MIGRATION_ROUND_SECONDS": "0.1",
    "SLACKWATER_MIGRATION_GRACE_SECONDS": "5",
    "SLACKWATER_DESCHEDULER_TICK_SECONDS": "0.1",
}
_ARGS = {
    "interval": "300ms",
    "processQueueQPS": 50,
    "skipCheckExpectedReplicas": True,
    "workloadLimiter": {"duration": "0s"},
    "maxMigratingGlobally": 1,
}
_WORKLOADS = {
    Story.RETURNED: machine.FAILS,
    Story.HERE: machine.HERE,
    Story.EVICTED: machine.PLAIN,
}
_KINDS = {
    "arbitrationargs": "ArbitrationArgs",
    "autonomies": "Autonomy",
    "deschedulerprofiles": "DeschedulerProfile",
    "podmigrationjobs": "PodMigrationJob",
}
_MARKS = {Story.GUARDED: machine.GUARDED, Story.UNWRITTEN: machine.UNWRITTEN, Story.LATE: machine.SLOW}
OLD_SECONDS = 1.1
"""Beyond the life time of the profile."""
_POINT_SECONDS, _END_SECONDS, _POLL_SECONDS = 60.0, 120.0, 0.03


@dataclass(slots=True)
class Move:
    """One move and what was killed in it."""

    number: int
    point: CrashPoint
    uid: str
    seconds: float = 0.0
    outcome: str = ""
    broken: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"case-{self.number}"

    @property
    def workload(self) -> str:
        return _WORKLOADS.get(self.point.story, machine.BOTH)


class KilledMoves:
    """Performs moves one after the other; each is killed at its point."""

    def __init__(self, here: Site, bus: NatsBus, halts: HaltSwitch, ledger: Ledger, agents: dict[str, Program]) -> None:
        self._here = here
        self._bus = bus
        self._halts = halts
        self._ledger = ledger
        self._agents = agents
        self._folders = {node: here.folder / node for node in agents}
        self._log = here.folder / "effects.jsonl"
        self._held_up = False
        self._has_proposals = "descheduler" in here.programs

    async def declare(self) -> None:
        """The documents that hold for all moves."""
        spec = {"mode": "evict", "nodePool": machine.POOL, "evictionsPerHour": 100_000, "reliefsMissed": 1000,
                "nodeEvictionsPerHour": 100_000}  # fmt: skip
        await self._put("ensurance", "autonomies", machine.POOL, spec)
        await self._hold_up(False)
        machine.begin_pod(self._folders[machine.SOURCE], BESIDE, machine.PLAIN, "other", {})
        await self._put("migration", "podmigrationjobs", BESIDE, {"podRef": {"uid": BESIDE}, "dryRun": True})
        await until(self._rests, 60, "a first round was held", 0.1)  # the first one is due whatever the interval

    async def perform(self, move: Move) -> None:
        """One move with its kill; notes what it broke."""
        began = time.monotonic()
        for folder in self._folders.values():
            for path in (folder / "pods").glob("*.json"):
                if path.stem != BESIDE:
                    path.unlink()
        digest = machine.digest(move.workload)
        labels = {} if move.workload == machine.PLAIN else {TEMPLATE_LABEL: digest}
        await self._hold_up(move.point.story is Story.UNSTARTED)
        self._ledger.meant(Key("move", move.uid))
        machine.begin_pod(self._folders[machine.SOURCE], move.uid, move.workload, machine.NAMESPACE, labels)
        self._halts.arm(move.point.name)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell(move))
            group.create_task(self._strike(move))
        if move.point.story is Story.MOVED and self._has_proposals:
            await self._delete("descheduler", "deschedulerprofiles", move.name)
        self._judge(move, await self._job(move))
        move.seconds = time.monotonic() - began

    async def _tell(self, move: Move) -> None:
        """The story of a move until its job has ended."""
        await until(lambda: self._is_seen(move), 30, f"{move.uid} is reported")
        match move.point.story:
            case Story.MOVED if self._has_proposals:
                await self._put("descheduler", "deschedulerprofiles", move.name, _profile(dry_run=False))
            case Story.PLANNED:
                await self._put("descheduler", "deschedulerprofiles", move.name, _profile(dry_run=True))
                await self._plan(move)
            case story:
                spec = {"podRef": {"uid": move.uid}, "dryRun": story is Story.DRY}
                if story is Story.EVICTED:
                    spec["mode"] = "EvictDirectly"
                await self._put("migration", "podmigrationjobs", move.name, spec)
        self._ledger.came(Key("move", move.uid), Outcome.ACKED)
        if move.point.victim == "migration" and move.point.story is Story.MOVED:
            beside = {"podRef": {"uid": BESIDE}, "dryRun": True}
            await self._put("migration", "podmigrationjobs", f"{BESIDE}-{move.number}", beside)
        if move.point.story in (Story.UNWRITTEN, Story.LATE, Story.UNSTARTED):
            await until(lambda: self._is_to_be_deleted(move), 60, f"{move.name} is where it is deleted", _POLL_SECONDS)
            await self._delete("migration", "podmigrationjobs", move.name)
        await until(lambda: self._has_ended(move), _END_SECONDS, f"the job of {move.uid} has ended", _POLL_SECONDS)

    async def _plan(self, move: Move) -> None:
        async def made() -> bool:
            answer = await self._send("POST", "descheduler", "/v1/move-plans", {"profile": move.name})
            plan.update(answer.json() if answer is not None and answer.status_code in (200, 201) else {})
            return bool(plan.get("steps"))

        async def applied() -> bool:
            answer = await self._send("POST", "descheduler", f"/v1/move-plans/{plan['id']}/apply", None)
            return answer is not None and answer.status_code == 200

        plan: dict[str, Any] = {}
        await until(made, 30, "a plan is made", 0.1)
        await until(applied, 30, "the plan is applied", 0.1)

    async def _strike(self, move: Move) -> None:
        """Kill the victim while a process stands at the point."""

        async def held() -> bool:
            return self._halts.is_held()

        try:
            await until(held, _POINT_SECONDS, f"a process comes by {move.point.name}", 0.01)
        except TimeoutError:
            move.broken.append("no process came by the point")
            self._halts.disarm()
            return
        victim = self._victim(move.point)
        died = victim.pid
        victim.kill()

        async def gone() -> bool:
            return victim.pid != died

        await until(gone, 10, f"{victim.name} is gone", 0.01)
        self._halts.disarm()

    def _victim(self, point: CrashPoint) -> Program:
        if point.victim != "agent":
            return self._here.programs[point.victim]
        if point.name.startswith("agent"):
            held = int((self._halts.folder / "held").read_text())
            return next(agent for agent in self._agents.values() if agent.pid == held)
        is_started = any(word in point.name for word in ("replacing", "starts", "eviction.completed"))
        return self._agents[machine.TARGET if is_started else machine.SOURCE]

    async def _is_seen(self, move: Move) -> bool:
        """Whether the pod is old enough for the profile, and the last reports of the nodes have it and no earlier one:
        the services read them at the same time."""
        age_s = time.time() - (self._folders[machine.SOURCE] / "pods" / f"{move.uid}.json").stat().st_mtime
        wanted = {machine.SOURCE: {BESIDE, move.uid}, machine.TARGET: set[str]()}
        return age_s > OLD_SECONDS and all([await self._reported(node) == uids for node, uids in wanted.items()])

    async def _reported(self, node: str) -> set[str] | None:
        """The pods of the last report of a node; None: there is none."""
        try:
            report = await self._last("USAGE", f"sw.v1.usage.reported.*.{node}")
            slot = f"sw.v1.pods.rostered.*.{node}.{report.get('roster_slot', 0)}"
            roster = report.get("own_roster") or (await self._last("ROSTERS", slot))["roster"]
        except (NatsError, TimeoutError):
            return None
        return set(roster.get("uids", ())) if roster["digest"] == report["roster"] else None

    async def _last(self, stream: str, subject: str) -> dict[str, Any]:
        message = await self._bus.jetstream.get_last_msg(stream, subject)
        return cast(dict[str, Any], json.loads(message.data or b"{}"))

    async def _is_to_be_deleted(self, move: Move) -> bool:
        if move.point.story is Story.LATE:
            return any(line["what"] == "signal" and line["pod"] == move.uid for line in machine.effects(self._log))
        job = await self._job(move)
        if job is None:
            return False
        if move.point.story is Story.UNSTARTED:
            return True
        return job["job"]["step"] in ("evicting", "withdrawing", "ended")

    async def _has_ended(self, move: Move) -> bool:
        job = await self._job(move)
        return job is not None and job["job"]["step"] == "ended" and await self._rests()

    async def _rests(self) -> bool:
        """Whether there are jobs, and all have ended."""
        steps = await self._here.rows("SELECT DISTINCT document->'job'->>'step' AS step FROM migration.jobs")
        return [row["step"] for row in steps] == ["ended"]

    async def _job(self, move: Move) -> dict[str, Any] | None:
        rows = await self._here.rows(
            "SELECT document FROM migration.jobs WHERE document->'job'->>'pod' = $1"
            " OR document->'request'->>'pod_uid' = $1",
            move.uid,
        )
        if len(rows) > 1:
            move.broken.append(f"{len(rows)} jobs of one pod")
        return json.loads(rows[0]["document"]) if rows else None

    def _judge(self, move: Move, stored: dict[str, Any] | None) -> None:
        if stored is None:
            move.broken.append("the job is gone")
            return
        move.outcome = stored["job"]["outcome"]
        outcome = MoveOutcome(move.outcome)
        if outcome not in move.point.outcomes:
            move.broken.append(f"ended as {outcome}: {stored['job']['reason']} {stored['job']['message']}")
        pods = [pod["uid"] for node in self._folders.values() for pod in machine.living(node)
                if pod["namespace"] == machine.NAMESPACE]  # fmt: skip
        if len(pods) != PODS.get(outcome, len(pods)) or len(pods) > 1:
            move.broken.append(f"{len(pods)} pods run: {', '.join(pods)}")
        if outcome is MoveOutcome.OLD_POD_RUNS and pods != [move.uid]:
            move.broken.append("another pod than the old one runs")
        signalled = {line["pod"] for line in machine.effects(self._log) if line["what"] == "signal" and line["lived"]}
        if set(pods) & signalled:
            move.broken.append("the pod that runs was asked to end")

    async def judge_all(self, moves: Sequence[Move], bus: NatsBus, result: Result) -> None:
        """What holds over all moves together."""
        rows = await self._here.rows("SELECT name, document FROM migration.jobs")
        jobs = {row["name"]: json.loads(row["document"]) for row in rows}
        proposed = [job["request"]["pod_uid"] or job["job"]["pod"] for name, job in jobs.items()
                    if not name.startswith(BESIDE)]  # fmt: skip
        meant = {key: outcome for key, outcome in read(self._ledger.path).items() if key.kind == "move"}
        result.findings = compare(meant, [Key("move", uid) for uid in proposed])
        kept = await self._here.value("SELECT count(*) FROM migration.kept_reservations")
        result.promise("no reservation is left", kept == 0)
        result.promise("at most one pod moves at a time", not _overlaps(jobs.values()))
        completed = [json.loads(body) for _, body in await messages(bus, "eviction.completed")]
        ended = Counter(each["pod_uid"] for each in completed if each["outcome"] in ("terminated", "killed"))
        answers = Counter(each["id"] for each in completed)
        result.promise("each pod is evicted once at most", max(ended.values(), default=0) <= 1)
        result.promise("each eviction is answered once", max(answers.values(), default=0) <= 1)
        begun = Counter(line["labels"]["slackwater.io/start"] for line in machine.effects(self._log)
                        if line["what"] == "begin")  # fmt: skip
        result.promise("each start is launched once at most", max(begun.values(), default=0) <= 1)
        result.promise("every move ends as it has to", not any(move.broken for move in moves))
        programs = {**self._here.programs, **self._agents}
        died = {name: each.unasked_exits for name, each in programs.items() if each.unasked_exits}
        result.promise(f"nothing dies by itself {died or ''}".strip(), not died)

    async def _hold_up(self, held: bool) -> None:
        """Let no round of arbitration be due, or every one."""
        if held or self._held_up or not (self._log.parent / "declared").exists():
            (self._log.parent / "declared").touch()
            interval = "1h" if held else _ARGS["interval"]
            await self._put("migration", "arbitrationargs", "default", {**_ARGS, "interval": interval})
            self._held_up = held

    async def _put(self, service: str, kind: str, name: str, spec: dict[str, Any]) -> None:
        async def stored() -> bool:
            document = {"kind": _KINDS[kind], "metadata": {"name": name}, "spec": spec}
            answer = await self._send("PUT", service, f"/v1/{kind}/{name}", document)
            said.append("no answer" if answer is None else answer.text[:300])
            if answer is not None and 400 <= answer.status_code < 500 and answer.status_code != 409:
                raise RuntimeError(answer.text)
            return answer is not None and answer.status_code in (200, 201)

        said: list[str] = []
        try:
            await until(stored, 30, f"{kind}/{name} is stored", 0.05)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; last answer: {said[-1]}") from None

    async def _delete(self, service: str, kind: str, name: str) -> None:
        async def gone() -> bool:
            answer = await self._send("DELETE", service, f"/v1/{kind}/{name}", None)
            return answer is not None and answer.status_code in (200, 204, 404)

        await until(gone, 30, f"{kind}/{name} is deleted", 0.05)

    async def _send(self, method: str, service: str, path: str, body: Any) -> httpx2.Response | None:
        """None: nothing answered, as during a kill; send again."""
        try:
            return await self._here.http.request(method, self._here.url(service, path), json=body)
        except httpx2.HTTPError:
            return None


def _profile(*, dry_run: bool) -> dict[str, Any]:
    return {
        "nodePool": machine.POOL,
        "intervalSeconds": 86_400,
        "dryRun": dry_run,
        "marginPercent": 0,
        "rollout": {"namespaces": [machine.NAMESPACE]},
        "evictor": {"evictAllBarePods": True},
        "rest": {"restSeconds": 0, "loopMoves": 1000},
        "triggers": {"hotspot": False, "nodeCondition": False, "cordon": False, "collapsedOffer": False,
                     "quotaReclaim": False},
        "plugins": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 1}}],
    }  # fmt: skip


def _overlaps(jobs: Iterable[dict[str, Any]]) -> list[str]:
    """Jobs that were admitted while another one was under way."""
    admitted = [stored for stored in jobs if stored["job"]["admitted_s"]]
    spans = sorted((stored["job"]["admitted_s"], stored["ended_s"], stored["job"]["id"]) for stored in admitted)
    return [id_ for (_, end, _), (begin, _, id_) in pairwise(spans) if begin < end]


async def killed_moves(folder: Path, strictness: Strictness, points: Sequence[CrashPoint]) -> Result:
    """A move for each point, one after the other, on the same servers. Without the descheduler, if no point needs it:
    jobs are applied then."""
    result, halts = Result(), HaltSwitch(folder / "halts")
    services = ["ensurance", "migration"]
    services += ["descheduler"] if any(point.needs_descheduler for point in points) else []
    environment = {**QUICK_MOVES, VARIABLE: str(halts.folder)}
    async with AsyncExitStack() as stack:
        starting = site(folder, services, environment=environment, sabotage="move-halts")
        here = await stack.enter_async_context(starting)
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        agents = {}
        for node in (machine.SOURCE, machine.TARGET):
            (folder / node).mkdir(exist_ok=True)
            command = machine.machine_command(here.broker.url, folder / node, node)
            agents[node] = Program(node, command, folder, {VARIABLE: str(halts.folder)})
            stack.push_async_callback(agents[node].stop)
            await agents[node].start()
        killed = KilledMoves(here, bus, halts, ledger, agents)
        await killed.declare()
        moves = [Move(number, point, f"{_MARKS.get(point.story, 'pod')}-{machine.NAMESPACE}-{number}")
                 for number, point in enumerate(points)]  # fmt: skip
        for move in moves:
            try:
                await killed.perform(move)
            except* (TimeoutError, RuntimeError) as group:
                move.broken += [str(error) for error in group.exceptions]
                halts.disarm()
            print(_line(move), flush=True)  # noqa: T201 - progress
        await killed.judge_all(moves, bus, result)
    result.facts["moves"] = len(moves)
    result.facts["seconds_of_a_move"] = round(sum(move.seconds for move in moves) / max(1, len(moves)), 2)
    result.lines = [_line(move) for move in moves]
    for move in moves:
        if move.broken:
            result.promise(f"{move.point}: {'; '.join(move.broken)}", False)
    return result


def _line(move: Move) -> str:
    said = "; ".join(move.broken) or move.outcome
    return f"          {move.point.name:46} {move.point.victim:12} {move.seconds:5.1f} s  {said}"

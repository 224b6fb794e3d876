"""One PostgreSQL server in memory: sessions, transactions, locks, notifications and faults.

Statements run at once, and one at a time: a transaction meets others only between its statements, and where a statement
waits for a lock. Such a statement starts again when the lock is free, on the snapshot with which it began; rows that it
changes are read again, as READ COMMITTED has it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from tests.support.postgres_twin.planner import plan_of
from tests.support.postgres_twin.rows import Row, StoredTable
from tests.support.postgres_twin.scopes import Execution
from tests.support.postgres_twin.session import Contents, Running, ServiceSchema, Session
from tests.support.postgres_twin.transactions import Blocked, Transaction

from slackwater.model.time import Clock

DEADLOCK_SECONDS = 1.0
_MOST_SESSIONS = 100

Schedule = Callable[[float, Callable[[], None]], object]


def call_later(seconds: float, action: Callable[[], None]) -> object:
    """Runs an action of the server in the running loop, outside of the context of the process that caused it."""
    return asyncio.get_running_loop().call_later(seconds, action, context=contextvars.Context())


class Server:
    """Answers the sessions of all processes. Faults are methods: `restart`, `refuse_writes`, `stop`, and others."""

    def __init__(self, clock: Clock, schedule: Schedule = call_later) -> None:
        self.clock = clock
        self.schedule = schedule
        self.schemas: dict[str, ServiceSchema] = {}
        self.sessions: dict[int, Session] = {}
        self.takes_writes = True
        self.is_up = True
        self.most_sessions = _MOST_SESSIONS
        self.statements = self.commits = self.pids = 0
        self.lost_answers = 0
        """So many commits that write are applied, and then their session ends instead of an answer."""
        self.slow_seconds = 0.0
        """How long each statement waits before it starts."""
        self.notice_seconds = 5.0
        """How long the server keeps the session of a client that it cannot reach any more."""
        self._keys: dict[int, Transaction | Session] = {}
        self._waiting: dict[Running, None] = {}
        self._old: list[tuple[StoredTable, Row]] = []
        self._sweeps = False

    # Sessions

    def create(self, service: str, contents: Contents) -> None:
        """Creates the schema of a service."""
        self.schemas[service] = contents.schema()

    def connect(self, service: str, process: str, settings: Mapping[str, float]) -> Session:
        """Raises ConnectionRefusedError for a server that is away, and TooManyConnectionsError."""
        if not self.is_up:
            raise ConnectionRefusedError("the server is away")
        if len(self.sessions) >= self.most_sessions:
            raise asyncpg.TooManyConnectionsError("sorry, too many clients already")
        self.pids += 1
        session = Session(self, self.pids, service, self.schemas[service], process, settings)
        self.sessions[session.pid] = session
        return session

    def end_session(self, pid: int) -> bool:
        """Ends a session as pg_terminate_backend does: its transaction is rolled back, its client learns of it."""
        session = self.sessions.pop(pid, None)
        if session is None:
            return False
        session.is_open = False
        if session.running is not None:
            self._fail(session.running, asyncpg.AdminShutdownError("terminating connection"))
        if session.transaction is not None:
            self._finish(session.transaction, commits=False)
        for key in list(session.keys):
            self._release_key(key)
        session.channels.clear()
        session.deliver(session.ended)
        return True

    def abandon(self, session: Session, after_seconds: float = 0.0) -> None:
        """The client is gone; the server notices after so many seconds, until which all locks stay."""
        if after_seconds > 0:
            self.schedule(after_seconds, lambda: self.abandon(session))
        else:
            session.ended = lambda: None
            self.end_session(session.pid)

    def abandon_process(self, process: str, after_seconds: float) -> None:
        """As `abandon`, for every session of a process that has crashed."""
        for session in list(self.sessions.values()):
            if session.process == process:
                self.abandon(session, after_seconds)

    def ping(self, session: Session) -> None:
        """Raises ConnectionDoesNotExistError for a session that has ended."""
        self._check(session)

    def begin(self, session: Session) -> None:
        """Begins a transaction that stays open."""
        self._check(session)
        session.transaction = Transaction(session, self.clock.now(), is_implicit=False)

    # Statements

    def execute(self, session: Session, sql: str, parameters: Any, *, begins: bool) -> Running:
        """Starts a statement. `begins`: in a transaction that stays open; else it commits by itself."""
        self._check(session)
        self.statements += 1
        transaction = session.transaction
        if transaction is None:
            transaction = session.transaction = Transaction(session, self.clock.now(), is_implicit=not begins)
            if begins and session.idle_seconds and not self._sweeps:
                self._sweep_later(session.idle_seconds)
        elif transaction.has_failed:
            raise asyncpg.InFailedSQLTransactionError("current transaction is aborted")
        transaction.command += 1
        catalog = session.schema.catalog
        try:
            plan = plan_of(sql, catalog)
        except asyncpg.PostgresError:
            self._abort(transaction)
            raise
        execution = Execution(self, session, transaction, session.schema.tables, catalog, transaction.command)
        running = Running(session, plan, parameters, execution)
        if self.slow_seconds:
            self._wait(running, [])
            self.schedule(self.slow_seconds, lambda: self._retry(running))
        else:
            self._attempt(running)
        return running

    def copy(self, session: Session, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Running:
        """COPY: one statement that inserts all rows."""
        return self.execute(session, f"COPY {table} ({', '.join(columns)})", rows, begins=True)

    def _check(self, session: Session) -> None:
        if not session.is_open:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    def _attempt(self, running: Running) -> None:
        session, execution = running.session, running.execution
        transaction, plan = execution.transaction, running.plan
        mark = len(transaction.log)
        try:
            if plan.writes and not self.takes_writes:
                raise asyncpg.ReadOnlySQLTransactionError("cannot execute it in a read-only transaction")
            for name, mode in plan.tables:
                transaction.lock_table(execution.tables[name], mode)
            running.result = plan.run(execution, running.parameters)
            session.running = None
            session.used_at = self.clock.now() if session.idle_seconds else session.used_at
            if transaction.is_implicit:
                self._commit(transaction)
        except Blocked as blocked:
            transaction.revert(mark)
            execution.draws = 0
            self._wait(running, blocked.blockers)
        except (asyncpg.PostgresError, ValueError, OverflowError) as error:
            session.running = None
            running.error = error
            self._abort(transaction)

    def _wait(self, running: Running, blockers: list[Transaction]) -> None:
        running.session.running = running
        running.blockers = blockers
        for blocker in blockers:
            blocker.waiters[running] = None
        if running.future is None:
            running.future = asyncio.get_running_loop().create_future()
            running.execution.snapshot = self.commits
            self._waiting[running] = None
            if running.session.statement_seconds:
                timeout = asyncpg.QueryCanceledError("canceling statement due to statement timeout")
                self.schedule(running.session.statement_seconds, lambda: self._fail(running, timeout))
        if blockers:
            self.schedule(DEADLOCK_SECONDS, lambda: self._check_deadlock(running))

    def _retry(self, running: Running) -> None:
        """Starts a statement again that has waited."""
        if running.session.running is not running or running.is_done():
            return
        for blocker in running.blockers:
            blocker.waiters.pop(running, None)
        running.blockers = []
        self._attempt(running)
        if running.is_done():
            self._done(running)

    def _done(self, running: Running) -> None:
        self._waiting.pop(running, None)
        if not self._waiting:
            old, self._old = self._old, []
            for table, row in old:
                table.purge(row)
        if running.future is not None and not running.future.done():
            running.future.set_result(None)

    def _fail(self, running: Running, error: BaseException) -> None:
        """Ends a waiting statement."""
        if running.session.running is not running:
            return
        running.session.running = None
        running.error = error
        for blocker in running.blockers:
            blocker.waiters.pop(running, None)
        self._abort(running.execution.transaction)
        self._done(running)

    def cancel(self, running: Running) -> None:
        """Ends a waiting statement for its client."""
        self._fail(running, asyncpg.QueryCanceledError("canceling statement due to user request"))

    def _check_deadlock(self, running: Running) -> None:
        """The waiting statement whose check comes first breaks a cycle: it waited longest."""
        if running.session.running is not running:
            return
        seen, ahead = set[Transaction](), list(running.blockers)
        while ahead:
            transaction = ahead.pop()
            if transaction is running.execution.transaction:
                self._fail(running, asyncpg.DeadlockDetectedError("deadlock detected"))
                return
            waiting = transaction.session.running
            if transaction not in seen and waiting is not None:
                ahead += waiting.blockers
            seen.add(transaction)

    # Ends of transactions

    def commit(self, session: Session) -> None:
        """Commits; a transaction that has failed is rolled back, without an error, as PostgreSQL does."""
        self._check(session)
        transaction = session.transaction
        if transaction is None:
            return
        if transaction.has_failed:
            session.transaction = None
        else:
            self._commit(transaction)

    def rollback(self, session: Session) -> None:
        self._check(session)
        transaction, session.transaction = session.transaction, None
        if transaction is not None and not transaction.has_failed:
            self._finish(transaction, commits=False)

    def _commit(self, transaction: Transaction) -> None:
        writes = bool(transaction.log)
        self._finish(transaction, commits=True)
        if writes and self.lost_answers:
            self.lost_answers -= 1
            self.end_session(transaction.session.pid)
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    def _abort(self, transaction: Transaction) -> None:
        """A failed statement ends its transaction at once, locks included; the client still has to end it."""
        if transaction.has_failed or transaction.session.transaction is not transaction:
            return
        self._finish(transaction, commits=False)
        transaction.has_failed = True
        if not transaction.is_implicit and transaction.session.is_open:
            transaction.session.transaction = transaction

    def _finish(self, transaction: Transaction, *, commits: bool) -> None:
        transaction.session.transaction = None
        if transaction.log:
            self._settle(transaction, commits=commits)
        for end in transaction.undo:
            end(commits)
        for key in list(transaction.advisory):
            self._release_key(key)
        transaction.release()
        if commits and transaction.notices:
            self._notify(transaction)
        waiters, transaction.waiters = transaction.waiters, {}
        for running in waiters:
            self._retry(running)

    def _settle(self, transaction: Transaction, *, commits: bool) -> None:
        self.commits += commits
        keeps = commits and bool(self._waiting)
        rewritten = []
        for table, row, writer, pending, _, _ in transaction.log:
            if row.writer is transaction:
                table.settle(row, transaction, commits=commits, number=self.commits, keeps_history=keeps)
                if keeps:
                    self._old.append((table, row))
            if writer is transaction and pending is not None:
                rewritten.append((table, row, pending))
        for table, row, pending in rewritten:
            for index in table.indexes:
                key = index.key_of(pending)
                if not row.history and (row.values is None or index.key_of(row.values) != key):
                    index.remove(key, row)
        transaction.log = []

    def _notify(self, transaction: Transaction) -> None:
        for channel, payload in transaction.notices:
            for session in list(self.sessions.values()):
                if channel in session.channels:
                    receive, pid = session.channels[channel], transaction.session.pid
                    session.deliver(_notice(receive, channel, payload, pid))

    # Advisory locks

    def lock_key(self, transaction: Transaction, key: int) -> None:
        """Locks a key until the end of the transaction. Raises Blocked."""
        holder = self._keys.get(key)
        if holder is None:
            self._keys[key] = transaction
            transaction.advisory.add(key)
        elif holder is not transaction:
            raise Blocked([holder] if isinstance(holder, Transaction) else [])

    def try_key(self, session: Session, key: int) -> bool:
        """Locks a key for the session; returns whether it was free."""
        if self._keys.get(key, session) is not session:
            return False
        self._keys[key] = session
        session.keys.add(key)
        return True

    def _release_key(self, key: int) -> None:
        holder = self._keys.pop(key, None)
        if isinstance(holder, Session):
            holder.keys.discard(key)
        elif holder is not None:
            holder.advisory.discard(key)

    # Time

    def _sweep_later(self, seconds: float) -> None:
        self._sweeps = True
        self.schedule(seconds, self._sweep)

    def _sweep(self) -> None:
        """Ends sessions whose transaction has been idle for too long."""
        self._sweeps = False
        now, earliest = self.clock.now(), None
        for session in list(self.sessions.values()):
            if session.transaction is None or not session.idle_seconds or session.running is not None:
                continue
            ends = session.used_at + timedelta(seconds=session.idle_seconds)
            if ends <= now:
                self.end_session(session.pid)
            elif earliest is None or ends < earliest:
                earliest = ends
        open_one = any(session.transaction is not None for session in self.sessions.values())
        if earliest is not None:
            self._sweep_later((earliest - now).total_seconds())
        elif open_one:
            self._sweep_later(1.0)

    # Faults

    def restart(self) -> None:
        """Ends all sessions: committed rows stay, all else is lost."""
        for pid in list(self.sessions):
            self.end_session(pid)

    def stop(self) -> None:
        """Goes away until `start`."""
        self.is_up = False
        self.restart()

    def start(self) -> None:
        self.is_up = True

    def refuse_writes(self, refuses: bool = True) -> None:
        """A failover to a server that is read-only: all sessions end, and writes are refused."""
        self.takes_writes = not refuses
        self.restart()

    def lose_answer(self, commits: int = 1) -> None:
        """The next commits that write are applied, and their clients do not learn of it."""
        self.lost_answers += commits


def _notice(receive: Callable[[str, str, int], None], channel: str, payload: str, pid: int) -> Callable[[], None]:
    return lambda: receive(channel, payload, pid)

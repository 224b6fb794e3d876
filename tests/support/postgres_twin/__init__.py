"""PostgreSQL in memory, as far as Slackwater uses it: SQL, transactions, locks, notifications and faults.

Real code above it: slackwater.store (units of work, outbox, relay, inbox, leases, keyed rows, resources, quarantine,
errors), each service's adapters with their SQL, and their migrations. Doubles: the server (`server`), asyncpg's
connection (`driver`), SQLAlchemy's engine and pool (`engine`). tests/integration/store holds it to the real server.

Known differences:
- jsonb as text keeps the order of its keys and repeats; uuid columns are text; parameters have no types of their own.
- Text sorts by code point, as in the database that Slackwater provisions; rows without ORDER BY come by insertion.
- Table locks have no queue. ON CONFLICT takes every unique key for its target. No savepoints, triggers or foreign keys.
- A COPY never waits for its client, so a claim of leases finds no statement to end.
- A commit with `synchronous_commit = off` is as durable as any other.
- A notice is sent at the commit; a statement that has waited is answered by a second exchange with the server.
"""

"""The SQL of the control loop's health: times from sample to effect, processes, replays of dead letters, windows."""

from __future__ import annotations

from sqlalchemy import text

LOOP_TIMES = text("""
    SELECT d.id, d.node, d.kind, d.decided_at,
        CAST(extract(epoch FROM d.decided_at - u.sampled_at) AS float8),
        CASE WHEN jsonb_typeof(e.body -> 'seconds_to_actuation') = 'number'
            THEN CAST(e.body ->> 'seconds_to_actuation' AS float8) END,
        CASE WHEN jsonb_typeof(e.body -> 'seconds_to_measurement') = 'number'
            THEN CAST(e.body ->> 'seconds_to_measurement' AS float8) END
    FROM decision d
    LEFT JOIN usage_point u ON u.event_id = d.body ->> 'trigger_event_id'
    LEFT JOIN effect e ON e.decision_id = d.id
    WHERE d.kind IN ('throttle', 'restore', 'evict') AND d.decided_at >= :since
        AND d.body ->> 'mode' IS DISTINCT FROM 'observe'
    ORDER BY d.decided_at DESC, d.id COLLATE "C" DESC LIMIT :limit
""")

SAVE_PROCESSES = text("""
    INSERT INTO process AS p (instance, reported_at, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(instance text, reported_at timestamptz, body jsonb)
    ON CONFLICT (instance) DO UPDATE SET reported_at = excluded.reported_at, body = excluded.body
    WHERE excluded.reported_at >= p.reported_at
""")
FORGET_PROCESSES = text("DELETE FROM process WHERE reported_at < :before")
PROCESSES = text('SELECT CAST(body AS text) FROM process ORDER BY instance COLLATE "C"')

NOTE_REPLAY = text("""
    INSERT INTO letter_replay (identity, number, position, message_id, replayed_at, replayed_by)
    VALUES (:identity, :number, :position, :message_id, :replayed_at, :replayed_by) ON CONFLICT DO NOTHING
""")
FORGET_REPLAY = text("DELETE FROM letter_replay WHERE identity = :identity AND number = :number")
REPLAYS = text("""
    SELECT position, identity, number, message_id, replayed_at, replayed_by FROM letter_replay
    WHERE identity = ANY(CAST(:identities AS text[])) ORDER BY replayed_at, number
""")

SAVE_WINDOWS = text("""
    INSERT INTO usage_window (event_id, closed_at, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(event_id text, closed_at timestamptz, body jsonb)
    ON CONFLICT (event_id) DO NOTHING
""")
WINDOW_EVENT = text("SELECT CAST(body AS text) FROM usage_window WHERE event_id = :id")
PRUNE_WINDOWS = text("DELETE FROM usage_window WHERE closed_at < :before")

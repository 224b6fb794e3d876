"""The SQL of the read model. Every write takes its whole batch in one statement: as one JSON array, or, for frequent
rows, as a list per column (decision 0012).
"""

from __future__ import annotations

from sqlalchemy import text

from slackwater.decisions.record import AGENT

_MAY_APPEAR = """(
    EXISTS (SELECT FROM node k WHERE k.name = r.name)
    OR NOT EXISTS (SELECT FROM event e WHERE e.node = r.name AND e.type = 'node.deleted')
)"""
"""A node that was deleted appears again with its description or a report. A prediction or an offer may come after the
deletion, because they are published for what was reported before it.
"""

SAVE_FACTS = text("""
    INSERT INTO node AS n (name, facts, boot_epoch, described_at)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(name text, facts jsonb, boot_epoch text, described_at timestamptz)
    ON CONFLICT (name) DO UPDATE
    SET facts = excluded.facts, boot_epoch = excluded.boot_epoch, described_at = excluded.described_at
    WHERE n.described_at IS NULL OR excluded.described_at >= n.described_at
""")

SAVE_LIVENESS = text(f"""
    INSERT INTO node AS n (name, liveness, liveness_changed_at)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(name text, liveness text, changed_at timestamptz)
    WHERE r.liveness = 'fresh' OR {_MAY_APPEAR}
    ON CONFLICT (name) DO UPDATE
    SET liveness = excluded.liveness, liveness_changed_at = excluded.liveness_changed_at
    WHERE n.liveness_changed_at IS NULL OR excluded.liveness_changed_at >= n.liveness_changed_at
""")  # noqa: S608 - constants

_GONE_AT = "coalesce(greatest(n.described_at, n.sampled_at) <= r.deleted_at, true)"
"""Whether nothing newer than its deletion is known of a node: else it is back."""
DELETE_NODES = text(f"""
    DELETE FROM node n USING jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(name text, deleted_at timestamptz)
    WHERE n.name = r.name AND {_GONE_AT}
""")  # noqa: S608 - constants
PRUNE_NODES = text(f"""
    DELETE FROM node n USING (
        SELECT node AS name, max(time) AS deleted_at FROM event WHERE type = 'node.deleted' GROUP BY node
    ) r WHERE n.name = r.name AND {_GONE_AT}
""")  # noqa: S608 - constants
"""Nodes that an event brought back which had been published before their deletion, and came after it."""

_CONDITIONS = """jsonb_array_elements(CASE WHEN jsonb_typeof(n.conditions) = 'array' THEN n.conditions ELSE '[]' END) c
        WHERE c ->> 'type' {} excluded.conditions -> 0 ->> 'type'"""
SAVE_CONDITIONS = text(f"""
    INSERT INTO node AS n (name, conditions, conditions_told_at)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(name text, conditions jsonb, told_at timestamptz)
    WHERE {_MAY_APPEAR}
    ON CONFLICT (name) DO UPDATE
    SET conditions = excluded.conditions
            || coalesce((SELECT jsonb_agg(c) FROM {_CONDITIONS.format("<>")}), CAST('[]' AS jsonb)),
        conditions_told_at = excluded.conditions_told_at
    WHERE NOT EXISTS (
        SELECT FROM {_CONDITIONS.format("=")}
            AND CAST(c ->> 'told_at' AS timestamptz) > excluded.conditions_told_at
    )
""")  # noqa: S608 - constants
"""One condition per node; those of other types stay."""

SAVE_LATEST_USAGE = text("""
    INSERT INTO node AS n (name, sampled_at, usage, reported_pods, amounts)
    SELECT name, sampled_at, CAST(usage AS jsonb), pods, CAST(amounts AS bigint[])
    FROM unnest(CAST(:name AS text[]), CAST(:sampled_at AS timestamptz[]), CAST(:usage AS text[]),
        CAST(:pods AS text[]), CAST(:amounts AS text[])) AS r(name, sampled_at, usage, pods, amounts)
    ON CONFLICT (name) DO UPDATE
    SET sampled_at = excluded.sampled_at, usage = excluded.usage, reported_pods = excluded.reported_pods,
        amounts = excluded.amounts
    WHERE n.sampled_at IS NULL OR excluded.sampled_at > n.sampled_at
""")

SAVE_USAGE = text("""
    INSERT INTO usage_point (event_id, node, sampled_at, body)
    SELECT event_id, node, sampled_at, CAST(body AS jsonb)
    FROM unnest(CAST(:event_id AS text[]), CAST(:node AS text[]), CAST(:sampled_at AS timestamptz[]),
        CAST(:body AS text[])) AS r(event_id, node, sampled_at, body)
    ON CONFLICT (event_id) DO NOTHING
""")

SAVE_LATEST_OFFER = text(f"""
    INSERT INTO node AS n (name, offered_at, offer)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(name text, offered_at timestamptz, offer jsonb)
    WHERE {_MAY_APPEAR}
    ON CONFLICT (name) DO UPDATE SET offered_at = excluded.offered_at, offer = excluded.offer
    WHERE n.offered_at IS NULL OR excluded.offered_at >= n.offered_at
""")  # noqa: S608 - constants

SAVE_OFFERS = text("""
    INSERT INTO offer (event_id, node, offered_at, generation, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(event_id text, node text, offered_at timestamptz, generation bigint, body jsonb)
    ON CONFLICT (event_id) DO NOTHING
""")

SAVE_FORECASTS = text("""
    INSERT INTO forecast (event_id, node, predicted_at, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(event_id text, node text, predicted_at timestamptz, body jsonb)
    ON CONFLICT (event_id) DO NOTHING
""")

SAVE_LATEST_FORECAST = text(f"""
    INSERT INTO node AS n (name, predicted_at, prod_peak)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(name text, predicted_at timestamptz, prod_peak bigint[])
    WHERE {_MAY_APPEAR}
    ON CONFLICT (name) DO UPDATE SET predicted_at = excluded.predicted_at, prod_peak = excluded.prod_peak
    WHERE n.predicted_at IS NULL OR excluded.predicted_at >= n.predicted_at
""")  # noqa: S608 - constants

SAVE_DECISIONS = text(f"""
    INSERT INTO decision (id, node, kind, subject, reason, decided_at, pods, spared, carried_out, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(id text, node text, kind text, subject text, reason text, decided_at timestamptz,
             pods text[], spared text[], carried_out boolean, body jsonb)
    ON CONFLICT (id) DO UPDATE SET node = excluded.node, kind = excluded.kind, subject = excluded.subject,
        reason = excluded.reason, decided_at = excluded.decided_at, pods = excluded.pods, spared = excluded.spared,
        carried_out = excluded.carried_out, body = excluded.body
    WHERE decision.body ->> 'service' = '{AGENT}' AND excluded.body ->> 'service' <> '{AGENT}'
""")  # noqa: S608 - a constant
"""Ids of services' decisions may be guessed: what an agent has recorded under one gives way."""

SAVE_EFFECTS = text("""
    INSERT INTO effect (decision_id, measured_at, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(decision_id text, measured_at timestamptz, body jsonb)
    ON CONFLICT (decision_id) DO UPDATE SET measured_at = excluded.measured_at, body = excluded.body
""")

SAVE_OBSERVATIONS = text("""
    INSERT INTO observation (event_id, observed_at, decision_ids, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(event_id text, observed_at timestamptz, decision_ids text[], body jsonb)
    ON CONFLICT (event_id) DO NOTHING
""")

SAVE_EVICTIONS = text("""
    INSERT INTO eviction (node, id, decision_id, completed_at, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(node text, id text, decision_id text, completed_at timestamptz, body jsonb)
    ON CONFLICT (node, id) DO NOTHING
""")

PRUNE_USAGE = (
    text("DELETE FROM usage_point WHERE sampled_at < :before"),
    text("DELETE FROM forecast WHERE predicted_at < :before"),
    text("DELETE FROM offer WHERE offered_at < :before"),
)
PRUNE_DECISIONS = (
    text("DELETE FROM decision WHERE decided_at < :before"),
    text("DELETE FROM effect WHERE measured_at < :before"),
    text("DELETE FROM observation WHERE observed_at < :before"),
    text("DELETE FROM eviction WHERE completed_at < :before"),
)

_NODE_BODY = """
    SELECT CAST(jsonb_build_object('name', name, 'facts', facts, 'described_at', described_at,
        'boot_epoch', boot_epoch, 'liveness', liveness, 'liveness_changed_at', liveness_changed_at,
        'usage', usage, 'offer', offer, 'conditions', coalesce(conditions, CAST('[]' AS jsonb))) AS text)
    FROM node
"""
NODES = text(_NODE_BODY + ' ORDER BY name COLLATE "C"')
NODE = text(_NODE_BODY + " WHERE name = :name")
NODES_NAMED = text(_NODE_BODY + " WHERE name = ANY(CAST(:names AS text[]))")
PODS = text("SELECT reported_pods FROM node WHERE reported_pods IS NOT NULL")
NODE_PODS = text("SELECT reported_pods FROM node WHERE reported_pods IS NOT NULL AND name = :node")

USAGE = text("""
    SELECT CAST(body AS text) FROM usage_point
    WHERE node = :node AND sampled_at BETWEEN :since AND :until ORDER BY sampled_at, event_id
""")

FORECASTS = text("""
    (SELECT predicted_at, CAST(body AS text) AS body FROM forecast WHERE node = :node AND predicted_at < :since
     ORDER BY predicted_at DESC LIMIT 1)
    UNION ALL
    SELECT predicted_at, CAST(body AS text) FROM forecast
    WHERE node = :node AND predicted_at BETWEEN :since AND :until
    ORDER BY predicted_at
""")

_OFFERS = """
    (SELECT DISTINCT ON (node) offered_at, node, CAST(body AS text) AS body FROM offer
     WHERE offered_at < :since {only} ORDER BY node, offered_at DESC, generation DESC)
    UNION ALL
    SELECT offered_at, node, CAST(body AS text) FROM offer WHERE offered_at BETWEEN :since AND :until {only}
    ORDER BY offered_at, node
"""
OFFERS = text(_OFFERS.format(only=""))
NODE_OFFERS = text(_OFFERS.format(only="AND node = :node"))
OFFER_AT = text("""
    SELECT CAST(body AS text) FROM offer WHERE node = :node AND offered_at <= :at
    ORDER BY offered_at DESC, generation DESC LIMIT 1
""")

_SUMMARY = """
    SELECT CAST((CASE WHEN jsonb_typeof(d.body) = 'object' THEN d.body ELSE '{}' END
        - 'replay' - 'inputs' - 'terms' - 'alternatives') || jsonb_build_object(
        'relieved', e.body -> 'relieved', 'seconds_to_actuation', e.body -> 'seconds_to_actuation') AS text)
    FROM decision d LEFT JOIN effect e ON e.decision_id = d.id LEFT JOIN node n ON n.name = d.node
"""
DECISIONS = text(
    _SUMMARY
    + """
    WHERE (CAST(:node AS text) IS NULL OR d.node = :node)
      AND (CAST(:kinds AS text[]) IS NULL OR d.kind = ANY(CAST(:kinds AS text[])))
      AND (CAST(:reason AS text) IS NULL OR d.reason = :reason)
      AND (CAST(:pod AS text) IS NULL OR d.pods @> ARRAY[CAST(:pod AS text)]
           OR (:spared AND d.spared @> ARRAY[CAST(:pod AS text)]))
      AND (CAST(:pool AS text) IS NULL OR n.facts ->> 'pool' = :pool)
      AND (CAST(:carried_out AS boolean) IS NULL OR d.carried_out = :carried_out)
      AND (CAST(:subject AS text) IS NULL OR d.subject = :subject)
      AND (CAST(:episode AS text) IS NULL OR d.body ->> 'episode' = :episode)
      AND (CAST(:since AS timestamptz) IS NULL OR d.decided_at >= :since)
      AND (CAST(:until AS timestamptz) IS NULL OR d.decided_at <= :until)
      AND (CAST(:before_at AS timestamptz) IS NULL
           OR (d.decided_at, d.id COLLATE "C") < (:before_at, CAST(:before_id AS text) COLLATE "C"))
    ORDER BY d.decided_at DESC, d.id COLLATE "C" DESC LIMIT :limit
"""
)
ACTIONS_ON = text(
    _SUMMARY
    + """
    WHERE d.node = ANY(CAST(:nodes AS text[])) AND d.kind IN ('throttle', 'restore') AND d.decided_at >= :since
    ORDER BY d.decided_at DESC, d.id COLLATE "C" DESC LIMIT :limit
"""
)
DECISION = text("SELECT CAST(body AS text) FROM decision WHERE id = :id")
DECISIONS_ABOUT = text("""
    SELECT CAST(body AS text) FROM decision
    WHERE (pods @> ARRAY[CAST(:pod AS text)] OR spared @> ARRAY[CAST(:pod AS text)])
      AND (CAST(:until AS timestamptz) IS NULL OR decided_at <= :until)
      AND (CAST(:kind AS text) IS NULL OR kind = :kind)
    ORDER BY decided_at DESC, id COLLATE "C" DESC LIMIT :limit
""")
PODS_CALLED = text("""
    SELECT p ->> 'uid', p ->> 'name', p ->> 'namespace', node.name, true, sampled_at
    FROM node CROSS JOIN LATERAL jsonb_array_elements(
        CASE WHEN reported_pods IS JSON ARRAY THEN CAST(reported_pods AS jsonb) ELSE CAST('[]' AS jsonb) END) AS p
    WHERE (CAST(:node AS text) IS NULL OR node.name = :node) AND strpos(reported_pods, :written) > 0
      AND :pod IN (p ->> 'name', p ->> 'uid')
""")
PODS_DECIDED_ON = text("""
    SELECT DISTINCT ON (uid) uid, name, namespace, node, false, decided_at
    FROM (
        SELECT d.node, d.decided_at, p ->> 'pod_uid' AS uid, coalesce(p ->> 'pod_name', p ->> 'what') AS name,
            coalesce(p ->> 'namespace', '') AS namespace
        FROM decision d CROSS JOIN LATERAL jsonb_array_elements((d.body -> 'actions') || (d.body -> 'alternatives')) p
        WHERE d.pods @> ARRAY[CAST(:pod AS text)] OR d.spared @> ARRAY[CAST(:pod AS text)]
    ) AS known
    WHERE uid <> '' AND (uid = :pod OR name = :pod)
    ORDER BY uid, decided_at DESC
""")
DECISION_AT = text("""
    SELECT CAST(body AS text) FROM decision WHERE node = :node AND subject = :subject AND decided_at <= :at
    ORDER BY decided_at DESC, id COLLATE "C" DESC LIMIT 1
""")
SUBJECTS = text('SELECT DISTINCT subject COLLATE "C" AS subject FROM decision WHERE node = :node ORDER BY 1')

USAGE_EVENT = text("SELECT CAST(body AS text) FROM usage_point WHERE event_id = :id")
FORECAST_EVENT = text("SELECT CAST(body AS text) FROM forecast WHERE event_id = :id")
EFFECT = text("SELECT CAST(body AS text) FROM effect WHERE decision_id = :id")
OBSERVATIONS = text("""
    SELECT CAST(body AS text) FROM observation WHERE decision_ids @> ARRAY[CAST(:id AS text)] ORDER BY observed_at
""")
LAST_OBSERVATION = text("""
    SELECT CAST(body AS text) FROM observation WHERE body ->> 'node' = :node ORDER BY observed_at DESC LIMIT 1
""")
EVICTIONS = text("SELECT CAST(body AS text) FROM eviction WHERE decision_id = :id ORDER BY completed_at, id")

COUNTS = text("""
    SELECT (SELECT count(*) FROM node), (SELECT count(*) FROM usage_point), (SELECT count(*) FROM forecast),
        (SELECT count(*) FROM offer), (SELECT count(*) FROM observation), (SELECT count(*) FROM effect),
        (SELECT count(*) FROM eviction)
""")
REASONS = text("SELECT kind, reason, count(*) FROM decision GROUP BY 1, 2 ORDER BY kind, reason")

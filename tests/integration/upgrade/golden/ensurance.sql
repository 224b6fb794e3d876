CREATE SEQUENCE outbox_position_seq;
CREATE TABLE alembic_version (
  version_num character varying(32) NOT NULL
);
CREATE TABLE autonomies (
  name text NOT NULL,
  generation bigint NOT NULL,
  document jsonb,
  changed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE avoidance_actions (
  name text NOT NULL,
  generation bigint NOT NULL,
  document jsonb,
  changed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE guarded_nodes (
  node text NOT NULL,
  version bigint NOT NULL,
  generation bigint NOT NULL,
  throttled integer NOT NULL,
  document jsonb NOT NULL,
  changed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE inbox (
  consumer text NOT NULL,
  event_id uuid NOT NULL,
  handled_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE leases (
  partition integer NOT NULL,
  owner text,
  epoch bigint DEFAULT 0 NOT NULL,
  changed_at timestamp with time zone DEFAULT now() NOT NULL
) WITH (fillfactor=50);
CREATE TABLE members (
  member text NOT NULL,
  joined_at timestamp with time zone DEFAULT now() NOT NULL,
  expires_at timestamp with time zone NOT NULL
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);
CREATE TABLE node_rules (
  name text NOT NULL,
  generation bigint NOT NULL,
  document jsonb,
  changed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE outbox (
  "position" bigint DEFAULT nextval('outbox_position_seq'::regclass) NOT NULL,
  id uuid NOT NULL,
  type text NOT NULL,
  subject text NOT NULL,
  headers text NOT NULL,
  payload text NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  refused text
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);
CREATE TABLE pod_qos (
  name text NOT NULL,
  generation bigint NOT NULL,
  document jsonb,
  changed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE policies (
  name text NOT NULL,
  generation bigint NOT NULL,
  document jsonb NOT NULL,
  changed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE pool_autonomy (
  pool text NOT NULL,
  version bigint NOT NULL,
  document jsonb NOT NULL,
  changed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE quarantine (
  id text NOT NULL,
  state_table text NOT NULL,
  state_row text NOT NULL,
  node text NOT NULL,
  reason text NOT NULL,
  detail text NOT NULL,
  document text NOT NULL,
  since timestamp with time zone NOT NULL,
  failed_at timestamp with time zone NOT NULL,
  count bigint NOT NULL
);
ALTER SEQUENCE outbox_position_seq OWNED BY outbox.position;
ALTER TABLE alembic_version ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE autonomies ADD CONSTRAINT autonomies_pkey PRIMARY KEY (name);
ALTER TABLE avoidance_actions ADD CONSTRAINT avoidance_actions_pkey PRIMARY KEY (name);
ALTER TABLE guarded_nodes ADD CONSTRAINT guarded_nodes_pkey PRIMARY KEY (node);
ALTER TABLE inbox ADD CONSTRAINT inbox_pkey PRIMARY KEY (consumer, event_id);
ALTER TABLE leases ADD CONSTRAINT leases_pkey PRIMARY KEY (partition);
ALTER TABLE members ADD CONSTRAINT members_pkey PRIMARY KEY (member);
ALTER TABLE node_rules ADD CONSTRAINT node_rules_pkey PRIMARY KEY (name);
ALTER TABLE outbox ADD CONSTRAINT outbox_id_key UNIQUE (id);
ALTER TABLE outbox ADD CONSTRAINT outbox_pkey PRIMARY KEY ("position");
ALTER TABLE pod_qos ADD CONSTRAINT pod_qos_pkey PRIMARY KEY (name);
ALTER TABLE policies ADD CONSTRAINT policies_pkey PRIMARY KEY (name);
ALTER TABLE pool_autonomy ADD CONSTRAINT pool_autonomy_pkey PRIMARY KEY (pool);
ALTER TABLE quarantine ADD CONSTRAINT quarantine_pkey PRIMARY KEY (id);
CREATE INDEX inbox_handled_at ON inbox USING brin (handled_at);
INSERT INTO alembic_version (version_num) VALUES ('0005');
INSERT INTO autonomies (name, generation, document, changed_at) VALUES ('simulated', '1', '{"kind": "Autonomy", "spec": {"mode": "evict", "nodePool": null, "holdSeconds": 3600.0, "reliefsMissed": 5, "blanketEvictions": 0, "blanketThrottles": 2, "evictionsPerHour": 20, "nodeEvictionsPerHour": 20, "nodeEvictionsPerCycle": 1}, "metadata": {"name": "simulated", "changedBy": "local", "generation": 1}, "apiVersion": "slackwater.io/v1alpha1"}', '2026-11-23 16:32:48.476353+00');
INSERT INTO avoidance_actions (name, generation, document, changed_at) VALUES ('evict', '1', '{"kind": "AvoidanceAction", "spec": {"eviction": {"terminationGracePeriodSeconds": 1}, "throttle": null, "description": "", "coolDownSeconds": 300.0, "disableScheduling": true}, "metadata": {"name": "evict", "changedBy": "local", "generation": 1}, "apiVersion": "slackwater.io/v1alpha1"}', '2026-11-23 16:32:48.164778+00');
INSERT INTO guarded_nodes (node, version, generation, throttled, document, changed_at) VALUES ('sim-03', '5', '5', '0', '{"node": "sim-03", "pool": "simulated", "state": {"cycle": {"loop": {"told": [], "backoff": 0, "settled_at": null, "last_raise_at": null, "pending_since": null, "last_trigger_at": null, "prod_peak_milli": null, "used_lately_milli": [], "demand_at_raise_milli": null, "demand_at_trigger_milli": 0}, "analyzer": {"rules": [], "scheduling": {"because": [], "is_disabled": false, "last_trigger_at": null}}, "executor": {"refused": [], "begun_at": [], "underway": []}}, "format": 2, "throttles": []}, "closed": null, "labels": {}, "awaited": [], "version": 5, "decisions": [], "evictions": [], "generation": 5, "last_report": {"sequence": 6, "boot_epoch": "01a20940-a9d6-7f73-ab85-08567a1fd4d2", "sampled_at": "2026-11-23T16:32:48.462577Z"}, "capacity_bytes": 34359738368, "capacity_milli": 8000, "policy_generation": 5}', '2026-11-23 16:32:48.639466+00');
INSERT INTO guarded_nodes (node, version, generation, throttled, document, changed_at) VALUES ('sim-04', '13', '9', '0', '{"node": "sim-04", "pool": "simulated", "state": {"cycle": {"loop": {"told": ["open/evict"], "backoff": 0, "settled_at": null, "last_raise_at": null, "pending_since": null, "last_trigger_at": null, "prod_peak_milli": null, "used_lately_milli": [], "demand_at_raise_milli": null, "demand_at_trigger_milli": 0}, "analyzer": {"rules": [{"rule": "default.prod-cpu", "above": 0, "missing": "", "in_episode": false, "at_or_below": 2, "last_trigger_at": null}, {"rule": "memory.cpu", "above": 2, "missing": "", "in_episode": true, "at_or_below": 0, "last_trigger_at": "2026-11-23T16:33:29.718533Z"}], "scheduling": {"because": ["memory.cpu"], "is_disabled": true, "last_trigger_at": "2026-11-23T16:33:29.718533Z"}}, "executor": {"refused": [], "begun_at": ["2026-11-23T16:32:49.723765Z", "2026-11-23T16:32:50.712926Z"], "underway": []}}, "format": 2, "throttles": []}, "closed": {"rules": ["memory.cpu"], "since": "2026-11-23T16:32:49.723765Z", "until": "2026-11-23T16:34:49.723765Z", "reason": "scheduling_waterline_crossed", "decision_id": "01a20940-c640-7c05-86b6-c7b6368b8241"}, "labels": {}, "awaited": [], "version": 13, "decisions": [], "evictions": [], "generation": 9, "last_report": {"sequence": 47, "boot_epoch": "01a20940-aad3-72b5-a35f-94ef4862fe5d", "sampled_at": "2026-11-23T16:33:29.715118Z"}, "capacity_bytes": 34359738368, "capacity_milli": 8000, "policy_generation": 5}', '2026-11-23 16:33:29.720709+00');
INSERT INTO guarded_nodes (node, version, generation, throttled, document, changed_at) VALUES ('sim-02', '12', '9', '0', '{"node": "sim-02", "pool": "simulated", "state": {"cycle": {"loop": {"told": ["open/evict"], "backoff": 0, "settled_at": null, "last_raise_at": null, "pending_since": null, "last_trigger_at": null, "prod_peak_milli": null, "used_lately_milli": [], "demand_at_raise_milli": null, "demand_at_trigger_milli": 0}, "analyzer": {"rules": [{"rule": "default.prod-cpu", "above": 0, "missing": "", "in_episode": false, "at_or_below": 2, "last_trigger_at": null}, {"rule": "memory.cpu", "above": 2, "missing": "", "in_episode": true, "at_or_below": 0, "last_trigger_at": "2026-11-23T16:33:29.208433Z"}], "scheduling": {"because": ["memory.cpu"], "is_disabled": true, "last_trigger_at": "2026-11-23T16:33:29.208433Z"}}, "executor": {"refused": [], "begun_at": ["2026-11-23T16:32:50.213813Z", "2026-11-23T16:32:51.214912Z"], "underway": []}}, "format": 2, "throttles": []}, "closed": {"rules": ["memory.cpu"], "since": "2026-11-23T16:32:50.213813Z", "until": "2026-11-23T16:34:50.213813Z", "reason": "scheduling_waterline_crossed", "decision_id": "01a20940-c827-7edd-9aca-a336a9e56ceb"}, "labels": {}, "awaited": [], "version": 12, "decisions": [], "evictions": [], "generation": 9, "last_report": {"sequence": 47, "boot_epoch": "01a20940-a8dc-7913-876b-f0acd8c9c37e", "sampled_at": "2026-11-23T16:33:29.206193Z"}, "capacity_bytes": 34359738368, "capacity_milli": 8000, "policy_generation": 5}', '2026-11-23 16:33:29.210833+00');
INSERT INTO guarded_nodes (node, version, generation, throttled, document, changed_at) VALUES ('sim-01', '13', '9', '0', '{"node": "sim-01", "pool": "simulated", "state": {"cycle": {"loop": {"told": ["open/evict"], "backoff": 0, "settled_at": null, "last_raise_at": null, "pending_since": null, "last_trigger_at": null, "prod_peak_milli": null, "used_lately_milli": [], "demand_at_raise_milli": null, "demand_at_trigger_milli": 0}, "analyzer": {"rules": [{"rule": "default.prod-cpu", "above": 0, "missing": "", "in_episode": false, "at_or_below": 2, "last_trigger_at": null}, {"rule": "memory.cpu", "above": 2, "missing": "", "in_episode": true, "at_or_below": 0, "last_trigger_at": "2026-11-23T16:33:29.961866Z"}], "scheduling": {"because": ["memory.cpu"], "is_disabled": true, "last_trigger_at": "2026-11-23T16:33:29.961866Z"}}, "executor": {"refused": [], "begun_at": ["2026-11-23T16:32:49.964354Z", "2026-11-23T16:32:50.963111Z"], "underway": []}}, "format": 2, "throttles": []}, "closed": {"rules": ["memory.cpu"], "since": "2026-11-23T16:32:49.964354Z", "until": "2026-11-23T16:34:49.964354Z", "reason": "scheduling_waterline_crossed", "decision_id": "01a20940-c731-765c-b956-05cef0fc8b8d"}, "labels": {}, "awaited": [], "version": 13, "decisions": [], "evictions": [], "generation": 9, "last_report": {"sequence": 48, "boot_epoch": "01a20940-a7e1-72f4-be7d-9c71049cf19a", "sampled_at": "2026-11-23T16:33:29.959159Z"}, "capacity_bytes": 34359738368, "capacity_milli": 8000, "policy_generation": 5}', '2026-11-23 16:33:29.972601+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('0', 'host-606af441-ensurance/16499-fe376130', '1795451556544', '2026-11-23 16:32:36.543658+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('1', 'host-606af441-ensurance/16499-fe376130', '1795451556544', '2026-11-23 16:32:36.543672+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('2', 'host-606af441-ensurance/16499-fe376130', '1795451556544', '2026-11-23 16:32:36.543674+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('3', 'host-606af441-ensurance/16499-fe376130', '1795451556544', '2026-11-23 16:32:36.543675+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('4', 'host-606af441-ensurance/16499-fe376130', '1795451556544', '2026-11-23 16:32:36.543677+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('5', 'host-606af441-ensurance/16499-fe376130', '1795451556544', '2026-11-23 16:32:36.543678+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('6', 'host-606af441-ensurance/16499-fe376130', '1795451556544', '2026-11-23 16:32:36.543679+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('7', 'host-606af441-ensurance/16499-fe376130', '1795451556544', '2026-11-23 16:32:36.54368+00');
INSERT INTO members (member, joined_at, expires_at) VALUES ('host-606af441-ensurance/16499-fe376130', '2026-11-23 16:32:36.516272+00', '2026-11-23 16:33:47.430445+00');
INSERT INTO node_rules (name, generation, document, changed_at) VALUES ('memory', '1', '{"kind": "NodeQOS", "spec": {"rules": [{"name": "cpu", "strategy": "None", "actionName": "evict", "metricRule": {"name": "node_cpu_usage_ratio", "value": "15%", "target": "10%", "selector": null}, "coolDownSeconds": 3.0, "restoreThreshold": 1, "avoidanceThreshold": 2}], "selector": {"matchLabels": {}, "matchExpressions": []}}, "metadata": {"name": "memory", "changedBy": "local", "generation": 1}, "apiVersion": "slackwater.io/v1alpha1"}', '2026-11-23 16:32:48.566477+00');
INSERT INTO pod_qos (name, generation, document, changed_at) VALUES ('default', '1', '{"kind": "PodQOS", "spec": {"labelSelector": null, "scopeSelector": {"matchExpressions": [{"values": ["BE"], "operator": "In", "scopeName": "QOSClass"}]}, "allowedActions": ["throttle", "evict"]}, "metadata": {"name": "default", "changedBy": "local", "generation": 1}, "apiVersion": "slackwater.io/v1alpha1"}', '2026-11-23 16:32:48.312071+00');
INSERT INTO policies (name, generation, document, changed_at) VALUES ('default', '1', '{"kind": "NodeQOS", "spec": {"mode": "throttle", "rules": [{"name": "prod-cpu", "strategy": "None", "actionName": "throttle", "metricRule": {"name": "prod_cpu_pressure", "value": 0.1, "target": null, "selector": null}, "coolDownSeconds": 1.0, "restoreThreshold": 2, "avoidanceThreshold": 1}], "weights": "by-tier-idle", "throttle": {"stepRatio": 0.5, "probeRatio": 0.05, "excessRatio": 0.1, "minCpuMilli": 50, "probeSeconds": 60.0, "releaseRatio": 0.7, "settleSeconds": 0.5, "minChangeRatio": 0.01, "pendingSeconds": 10.0, "relapseSeconds": 10.0, "minRequestRatio": 0.0, "headroomMarginRatio": 0.05}}, "metadata": {"name": "default", "changedBy": "", "generation": 1}, "apiVersion": "slackwater.io/v1alpha1"}', '2026-11-23 16:32:36.375959+00');
INSERT INTO pool_autonomy (pool, version, document, changed_at) VALUES ('simulated', '9', '{"pool": "simulated", "state": {"because": "", "generation": 1, "evictions_at": ["2026-11-23T16:32:49.723765Z", "2026-11-23T16:32:49.964354Z", "2026-11-23T16:32:50.213813Z", "2026-11-23T16:32:50.712926Z", "2026-11-23T16:32:50.963111Z", "2026-11-23T16:32:51.214912Z"], "missed_in_a_row": 1, "stepped_back_at": null}, "losses": [{"at": "2026-11-23T16:32:50.213813Z", "workload": "crunch"}, {"at": "2026-11-23T16:32:51.214912Z", "workload": "index"}], "version": 9}', '2026-11-23 16:32:52.213386+00');
SELECT setval('outbox_position_seq', 63);

CREATE SEQUENCE outbox_position_seq;
CREATE TABLE alembic_version (
  version_num character varying(32) NOT NULL
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
CREATE TABLE nodes (
  node text NOT NULL,
  facts jsonb NOT NULL,
  window_end bigint NOT NULL,
  offers boolean NOT NULL,
  changed_at timestamp with time zone DEFAULT now() NOT NULL,
  due_at bigint NOT NULL,
  strategies jsonb GENERATED ALWAYS AS ((facts -> 'strategies'::text)) STORED,
  strategy_problem text GENERATED ALWAYS AS ((facts ->> 'strategy_problem'::text)) STORED,
  held text DEFAULT '{}'::text NOT NULL
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
CREATE TABLE strategies (
  name text NOT NULL,
  generation bigint NOT NULL,
  document jsonb,
  changed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE strategy_findings (
  name text NOT NULL,
  problem text NOT NULL,
  told_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER SEQUENCE outbox_position_seq OWNED BY outbox.position;
ALTER TABLE alembic_version ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE inbox ADD CONSTRAINT inbox_pkey PRIMARY KEY (consumer, event_id);
ALTER TABLE leases ADD CONSTRAINT leases_pkey PRIMARY KEY (partition);
ALTER TABLE members ADD CONSTRAINT members_pkey PRIMARY KEY (member);
ALTER TABLE nodes ADD CONSTRAINT nodes_pkey PRIMARY KEY (node);
ALTER TABLE outbox ADD CONSTRAINT outbox_id_key UNIQUE (id);
ALTER TABLE outbox ADD CONSTRAINT outbox_pkey PRIMARY KEY ("position");
ALTER TABLE quarantine ADD CONSTRAINT quarantine_pkey PRIMARY KEY (id);
ALTER TABLE strategies ADD CONSTRAINT strategies_pkey PRIMARY KEY (name);
ALTER TABLE strategy_findings ADD CONSTRAINT strategy_findings_pkey PRIMARY KEY (name);
CREATE INDEX inbox_handled_at ON inbox USING brin (handled_at);
CREATE INDEX nodes_ageing ON nodes USING btree (due_at) WHERE offers;
INSERT INTO alembic_version (version_num) VALUES ('0007');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-usage-windowed', '01a20941-82d1-75b0-90b4-e82fdc250eb4', '2026-11-23 16:33:38.022459+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-peak-predicted', 'f964c451-2631-5dce-838a-aced3d293342', '2026-11-23 16:33:37.854322+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-usage-windowed', '01a20941-81db-7f34-9265-43ec1c6e2d1b', '2026-11-23 16:33:37.769967+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-peak-predicted', 'bd9eadbf-26c7-5d09-87e1-615bec84317d', '2026-11-23 16:33:36.482945+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-peak-predicted', '4c3d1c17-ae0e-5506-98aa-1ac66b73f686', '2026-11-23 16:33:36.265848+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-usage-windowed', '01a20941-7be5-7ada-b801-921e43fd1d2c', '2026-11-23 16:33:36.244394+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-usage-windowed', '01a20941-7aea-74f0-8d21-e3e34888b668', '2026-11-23 16:33:35.986102+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-peak-predicted', '2abf64b2-c0f6-596e-aa54-3df60b17a0b0', '2026-11-23 16:33:35.862691+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-usage-windowed', '01a20941-79ff-7278-8a62-5aeee93b74cc', '2026-11-23 16:33:35.770508+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-peak-predicted', '7adf52e3-7a75-5ee6-85b9-f30f3c0b56dd', '2026-11-23 16:33:34.484996+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-usage-windowed', '01a20941-7428-7cc8-a28f-5a5aaffb2dc5', '2026-11-23 16:33:34.291109+00');
INSERT INTO inbox (consumer, event_id, handled_at) VALUES ('colocation-peak-predicted', 'ce6e8e0d-bf2e-54f9-94b4-20cc57de88e3', '2026-11-23 16:33:34.2527+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('0', 'host-59c22095-colocation/16801-b67c49af', '1795451612771', '2026-11-23 16:33:32.771366+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('1', 'host-59c22095-colocation/16801-b67c49af', '1795451612771', '2026-11-23 16:33:32.77138+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('2', 'host-59c22095-colocation/16801-b67c49af', '1795451612771', '2026-11-23 16:33:32.771382+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('3', 'host-59c22095-colocation/16801-b67c49af', '1795451612771', '2026-11-23 16:33:32.771383+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('4', 'host-59c22095-colocation/16801-b67c49af', '1795451612771', '2026-11-23 16:33:32.771384+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('5', 'host-59c22095-colocation/16801-b67c49af', '1795451612771', '2026-11-23 16:33:32.771385+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('6', 'host-59c22095-colocation/16801-b67c49af', '1795451612771', '2026-11-23 16:33:32.771386+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('7', 'host-59c22095-colocation/16801-b67c49af', '1795451612771', '2026-11-23 16:33:32.771387+00');
INSERT INTO members (member, joined_at, expires_at) VALUES ('host-59c22095-colocation/16801-b67c49af', '2026-11-23 16:33:32.744922+00', '2026-11-23 16:33:48.207627+00');
INSERT INTO nodes (node, facts, window_end, offers, changed_at, due_at, held) VALUES ('sim-03', '{"cpu": {"published": 4005, "rising_to": 0, "drifting_to": 3735, "last_window": 0, "drifting_since": 1795451565, "rising_windows": 0}, "lost": false, "node": "sim-03", "numa": [], "pods": [], "pool": "simulated", "notes": {"problems": [], "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "cpu_ratio": "1", "allocatable": null, "third_parties": []}, "peaks": {}, "words": {"labels": {}, "annotations": {}}, "zones": {}, "due_at": 1795451749, "memory": {"published": 21260088116, "rising_to": 0, "drifting_to": 21107291975, "last_window": 0, "drifting_since": 1795451565, "rising_windows": 0}, "status": null, "system": {"cpu_milli": 0, "memory_bytes": 0}, "mid_cpu": {"published": 0, "rising_to": 0, "drifting_to": 0, "last_window": 0, "drifting_since": 0, "rising_windows": 0}, "told_by": {"at": "2026-11-23T16:32:44.512200Z", "event_id": "78749d30-d5f9-500e-8665-ab01185b8a88"}, "used_by": {"at": "2026-11-23T16:32:47Z", "event_id": "01a20940-cdd2-7cdd-9baf-3ca27b3f5f5c"}, "capacity": {"cpu_milli": 8000, "memory_bytes": 34359738368}, "degraded": null, "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "host_apps": [], "prod_peak": {"cpu_milli": 1065, "memory_bytes": 1226537965}, "system_by": {"at": "2026-11-23T16:32:47Z", "event_id": "01a20940-cdd2-7cdd-9baf-3ca27b3f5f5c"}, "whole_end": 1795451569, "generation": 1, "good_words": null, "mid_memory": {"published": 0, "rising_to": 0, "drifting_to": 0, "last_window": 0, "drifting_since": 0, "rising_windows": 0}, "node_usage": {"cpu_milli": 8000, "memory_bytes": 2147483648}, "strategies": ["cluster@1"], "window_end": 1795451569, "liveness_by": {"at": "2026-11-23T16:32:51.547949Z", "event_id": "01a20940-cd5e-77d4-9076-e1df068372f6"}, "described_by": {"at": "2026-11-23T16:32:42.454915Z", "event_id": "01a20940-a9d6-7597-b960-cb7e64e2e6d3"}, "predicted_by": {"at": "2026-11-23T16:32:52.049171Z", "event_id": "6e9c0c4f-a0c6-5167-b2c5-c11213319960"}, "strategy_problem": "", "system_is_current": true}', '1795451569', 'true', '2026-11-23 16:32:52.072298+00', '1795451749', '{"pods":[{"uid":"sim-03-orders","tier":"prod","qos":"LS","request":{"cpu_milli":1600,"memory_bytes":1073741824},"usage":{"cpu_milli":331,"memory_bytes":536870912},"predicted":null,"cold":false,"numa":[],"listed":true,"bound_seconds_ago":7.077614},{"uid":"sim-03-quotes","tier":"prod","qos":"LS","request":{"cpu_milli":2400,"memory_bytes":1073741824},"usage":{"cpu_milli":497,"memory_bytes":536870912},"predicted":null,"cold":false,"numa":[],"listed":true,"bound_seconds_ago":7.077614}],"peaks":{"sim-03-orders":{"peak":{"cpu_milli":426,"memory_bytes":613268982},"cold":false},"sim-03-quotes":{"peak":{"cpu_milli":639,"memory_bytes":613268982},"cold":false}}}');
INSERT INTO nodes (node, facts, window_end, offers, changed_at, due_at, held) VALUES ('sim-02', '{"cpu": {"published": 0, "rising_to": 0, "drifting_to": 0, "last_window": 0, "drifting_since": 0, "rising_windows": 0}, "lost": false, "node": "sim-02", "numa": [], "pods": [], "pool": "simulated", "notes": {"problems": [], "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "cpu_ratio": "1", "allocatable": null, "third_parties": []}, "peaks": {}, "words": {"labels": {}, "annotations": {}}, "zones": {}, "due_at": 1795451795, "memory": {"published": 21260088116, "rising_to": 0, "drifting_to": 21107291975, "last_window": 0, "drifting_since": 1795451565, "rising_windows": 0}, "status": null, "system": {"cpu_milli": 0, "memory_bytes": 0}, "mid_cpu": {"published": 0, "rising_to": 0, "drifting_to": 0, "last_window": 0, "drifting_since": 0, "rising_windows": 0}, "told_by": {"at": "2026-11-23T16:32:54.349397Z", "event_id": "c6085756-51eb-5767-b2cb-2032c1092c66"}, "used_by": {"at": "2026-11-23T16:33:33Z", "event_id": "01a20941-7be5-7ada-b801-921e43fd1d2c"}, "capacity": {"cpu_milli": 8000, "memory_bytes": 34359738368}, "degraded": null, "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "host_apps": [], "prod_peak": {"cpu_milli": 5035, "memory_bytes": 1226537965}, "system_by": {"at": "2026-11-23T16:33:33Z", "event_id": "01a20941-7be5-7ada-b801-921e43fd1d2c"}, "whole_end": 1795451615, "generation": 2, "good_words": null, "mid_memory": {"published": 0, "rising_to": 0, "drifting_to": 0, "last_window": 0, "drifting_since": 0, "rising_windows": 0}, "node_usage": {"cpu_milli": 4944, "memory_bytes": 1073741824}, "strategies": ["cluster@1"], "window_end": 1795451615, "liveness_by": {"at": "2026-11-23T16:32:43.210173Z", "event_id": "01a20940-acd8-73e1-9c5e-4a09d036a6d3"}, "described_by": {"at": "2026-11-23T16:32:42.205168Z", "event_id": "01a20940-a8dd-7fce-8533-098f235124b6"}, "predicted_by": {"at": "2026-11-23T16:33:36.465611Z", "event_id": "bd9eadbf-26c7-5d09-87e1-615bec84317d"}, "strategy_problem": "", "system_is_current": true}', '1795451615', 'true', '2026-11-23 16:33:36.482945+00', '1795451795', '{"pods":[{"uid":"sim-02-orders","tier":"prod","qos":"LS","request":{"cpu_milli":1600,"memory_bytes":1073741824},"usage":{"cpu_milli":1978,"memory_bytes":536870912},"predicted":null,"cold":false,"numa":[],"listed":true,"bound_seconds_ago":53.077652},{"uid":"sim-02-quotes","tier":"prod","qos":"LS","request":{"cpu_milli":2400,"memory_bytes":1073741824},"usage":{"cpu_milli":2967,"memory_bytes":536870912},"predicted":null,"cold":false,"numa":[],"listed":true,"bound_seconds_ago":53.077652}],"peaks":{"sim-02-orders":{"peak":{"cpu_milli":2014,"memory_bytes":613268982},"cold":false},"sim-02-quotes":{"peak":{"cpu_milli":3021,"memory_bytes":613268982},"cold":false}}}');
INSERT INTO nodes (node, facts, window_end, offers, changed_at, due_at, held) VALUES ('sim-04', '[1]', '1795451607', 'true', '2026-11-23 16:33:27.846057+00', '1795451787', '{"pods":[{"uid":"sim-04-orders","tier":"prod","qos":"LS","request":{"cpu_milli":1600,"memory_bytes":1073741824},"usage":{"cpu_milli":323,"memory_bytes":536870912},"predicted":null,"cold":false,"numa":[],"listed":true,"bound_seconds_ago":45.077585},{"uid":"sim-04-quotes","tier":"prod","qos":"LS","request":{"cpu_milli":2400,"memory_bytes":1073741824},"usage":{"cpu_milli":485,"memory_bytes":536870912},"predicted":null,"cold":false,"numa":[],"listed":true,"bound_seconds_ago":45.077585}],"peaks":{"sim-04-orders":{"peak":{"cpu_milli":2013,"memory_bytes":613268982},"cold":false},"sim-04-quotes":{"peak":{"cpu_milli":3020,"memory_bytes":613268982},"cold":false}}}');
INSERT INTO nodes (node, facts, window_end, offers, changed_at, due_at, held) VALUES ('sim-01', '{"cpu": {"published": 0, "rising_to": 0, "drifting_to": 0, "last_window": 0, "drifting_since": 0, "rising_windows": 0}, "lost": false, "node": "sim-01", "numa": [], "pods": [], "pool": "simulated", "notes": {"problems": [], "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "cpu_ratio": "1", "allocatable": null, "third_parties": []}, "peaks": {}, "words": {"labels": {}, "annotations": {}}, "zones": {}, "due_at": 1795451797, "memory": {"published": 21260088116, "rising_to": 0, "drifting_to": 21107291975, "last_window": 0, "drifting_since": 1795451565, "rising_windows": 0}, "status": null, "system": {"cpu_milli": 0, "memory_bytes": 0}, "mid_cpu": {"published": 0, "rising_to": 0, "drifting_to": 0, "last_window": 0, "drifting_since": 0, "rising_windows": 0}, "told_by": {"at": "2026-11-23T16:32:54.146107Z", "event_id": "f3f96fc8-db23-52e3-ae3e-34286233fa6e"}, "used_by": {"at": "2026-11-23T16:33:35Z", "event_id": "01a20941-82d1-75b0-90b4-e82fdc250eb4"}, "capacity": {"cpu_milli": 8000, "memory_bytes": 34359738368}, "degraded": null, "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "host_apps": [], "prod_peak": {"cpu_milli": 5000, "memory_bytes": 1226537965}, "system_by": {"at": "2026-11-23T16:33:35Z", "event_id": "01a20941-82d1-75b0-90b4-e82fdc250eb4"}, "whole_end": 1795451617, "generation": 2, "good_words": null, "mid_memory": {"published": 0, "rising_to": 0, "drifting_to": 0, "last_window": 0, "drifting_since": 0, "rising_windows": 0}, "node_usage": {"cpu_milli": 4753, "memory_bytes": 1073741824}, "strategies": ["cluster@1"], "window_end": 1795451617, "liveness_by": {"at": "2026-11-23T16:32:42.959689Z", "event_id": "01a20940-abf1-7c6b-8fb7-48c88635445e"}, "described_by": {"at": "2026-11-23T16:32:41.953676Z", "event_id": "01a20940-a7e1-7e48-9e0c-9818c78ea650"}, "predicted_by": {"at": "2026-11-23T16:33:36.236250Z", "event_id": "4c3d1c17-ae0e-5506-98aa-1ac66b73f686"}, "strategy_problem": "", "system_is_current": true}', '1795451617', 'true', '2026-11-23 16:33:38.022459+00', '1795451797', '{"pods":[{"uid":"sim-01-orders","tier":"prod","qos":"LS","request":{"cpu_milli":1600,"memory_bytes":1073741824},"usage":{"cpu_milli":1901,"memory_bytes":536870912},"predicted":null,"cold":false,"numa":[],"listed":true,"bound_seconds_ago":55.077938},{"uid":"sim-01-quotes","tier":"prod","qos":"LS","request":{"cpu_milli":2400,"memory_bytes":1073741824},"usage":{"cpu_milli":2852,"memory_bytes":536870912},"predicted":null,"cold":false,"numa":[],"listed":true,"bound_seconds_ago":55.077938}],"peaks":{"sim-01-orders":{"peak":{"cpu_milli":2000,"memory_bytes":613268982},"cold":false},"sim-01-quotes":{"peak":{"cpu_milli":3000,"memory_bytes":613268982},"cold":false}}}');
INSERT INTO quarantine (id, state_table, state_row, node, reason, detail, document, since, failed_at, count) VALUES ('965ce3e642988b98', 'nodes', 'sim-04', 'sim-04', 'unreadable', 'ValidationError: Expected `object`, got `array`', '[1]', '2026-11-23 16:33:33.136803+00', '2026-11-23 16:33:33.136803+00', '1');
INSERT INTO quarantine (id, state_table, state_row, node, reason, detail, document, since, failed_at, count) VALUES ('9b74f804f2bd720b', 'strategies', 'broken', '', 'unreadable', 'metadata: Field required; got {}', '', '2026-11-23 16:33:32.675857+00', '2026-11-23 16:33:32.675857+00', '1');
INSERT INTO strategies (name, generation, document, changed_at) VALUES ('broken', '1', '{}', '2026-11-23 16:32:47.848848+00');
INSERT INTO strategies (name, generation, document, changed_at) VALUES ('web', '1', '{"kind": "ColocationStrategy", "spec": {"nodeSelector": {"matchLabels": {"role": "web"}}, "cpuReclaimThresholdPercent": 50}, "metadata": {"name": "web", "changedBy": "local", "generation": 1}, "apiVersion": "slackwater.io/v1alpha1"}', '2026-11-23 16:32:47.815736+00');
INSERT INTO strategies (name, generation, document, changed_at) VALUES ('default', '1', '{"kind": "ColocationStrategy", "spec": {"enable": true, "riseWindows": 2, "reservedCPUMilli": 0, "degradeFromSeconds": 180, "degradeTimeMinutes": 15, "reservedMemoryBytes": 0, "coldStartHoldsRequest": true, "resourceDiffThreshold": 0.1, "predictionMaxAgeSeconds": 900, "cpuReclaimThresholdPercent": 60, "updateTimeThresholdSeconds": 300, "memoryReclaimThresholdPercent": 65}, "metadata": {"name": "default", "changedBy": "settings of the service", "generation": 1}, "apiVersion": "slackwater.io/v1alpha1"}', '2026-11-23 16:32:36.886169+00');
INSERT INTO strategy_findings (name, problem, told_at) VALUES ('broken', 'metadata: Field required; got {}', '2026-11-23 16:33:32.78647+00');
SELECT setval('outbox_position_seq', 38);

CREATE SEQUENCE outbox_position_seq;
CREATE TABLE agent_blocks (
  node text NOT NULL,
  generation bigint NOT NULL,
  blocked boolean NOT NULL,
  reason text NOT NULL,
  changed_by text NOT NULL,
  changed_at timestamp with time zone NOT NULL
);
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
CREATE TABLE node_usage (
  midpoint_at timestamp with time zone NOT NULL,
  node text NOT NULL,
  boot_epoch text NOT NULL,
  sequence bigint NOT NULL,
  sampled_at timestamp with time zone NOT NULL,
  received_at timestamp with time zone NOT NULL,
  window_seconds double precision NOT NULL,
  gap_delta bigint NOT NULL,
  late boolean NOT NULL,
  cpu bigint[] NOT NULL,
  memory bigint[] NOT NULL,
  system_cpu bigint[],
  system_memory bigint[],
  node_cpu_last double precision,
  node_cpu_avg double precision,
  node_cpu_max double precision,
  node_memory_avg double precision,
  node_io_avg double precision,
  prod_cpu_last double precision,
  prod_cpu_avg double precision,
  prod_cpu_max double precision,
  host_apps text
) PARTITION BY RANGE (midpoint_at);
CREATE TABLE nodes (
  name text NOT NULL,
  facts jsonb,
  described_epoch text,
  described_at timestamp with time zone,
  cpu_capacity_milli bigint,
  memory_capacity_bytes bigint,
  boot_epoch text,
  previous_epoch text,
  last_sequence bigint DEFAULT 0 NOT NULL,
  missing bigint[] DEFAULT '{}'::bigint[] NOT NULL,
  last_report_at timestamp with time zone,
  liveness text,
  newest_at timestamp with time zone,
  closed_until timestamp with time zone,
  gaps bigint DEFAULT 0 NOT NULL,
  hole_from timestamp with time zone,
  hole_seen_at timestamp with time zone
) WITH (fillfactor=60);
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
CREATE TABLE pods (
  uid text NOT NULL,
  node text NOT NULL,
  pod jsonb NOT NULL,
  last_seen_at timestamp with time zone NOT NULL,
  liveness text NOT NULL,
  present boolean DEFAULT true NOT NULL
) WITH (fillfactor=60);
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
CREATE TABLE refusals (
  node text NOT NULL,
  reason text NOT NULL,
  count bigint NOT NULL,
  last_at timestamp with time zone NOT NULL
);
CREATE TABLE report_pods (
  midpoint_at timestamp with time zone NOT NULL,
  node text NOT NULL,
  boot_epoch text NOT NULL,
  sequence bigint NOT NULL,
  uids text[] NOT NULL,
  tiers text[] NOT NULL,
  cpu bigint[] NOT NULL,
  memory bigint[] NOT NULL,
  cpu_limits bigint[] NOT NULL,
  throttled double precision[] NOT NULL,
  cpu_pressure double precision[] NOT NULL
) PARTITION BY RANGE (midpoint_at);
CREATE TABLE node_usage_20261122 PARTITION OF node_usage FOR VALUES FROM ('2026-11-22 00:00:00+00') TO ('2026-11-23 00:00:00+00');
CREATE TABLE node_usage_20261123 PARTITION OF node_usage FOR VALUES FROM ('2026-11-23 00:00:00+00') TO ('2026-11-24 00:00:00+00');
CREATE TABLE node_usage_20261124 PARTITION OF node_usage FOR VALUES FROM ('2026-11-24 00:00:00+00') TO ('2026-11-25 00:00:00+00');
CREATE TABLE node_usage_20261125 PARTITION OF node_usage FOR VALUES FROM ('2026-11-25 00:00:00+00') TO ('2026-11-26 00:00:00+00');
CREATE TABLE report_pods_20261122 PARTITION OF report_pods FOR VALUES FROM ('2026-11-22 00:00:00+00') TO ('2026-11-23 00:00:00+00') WITH (toast_tuple_target=8160);
CREATE TABLE report_pods_20261123 PARTITION OF report_pods FOR VALUES FROM ('2026-11-23 00:00:00+00') TO ('2026-11-24 00:00:00+00') WITH (toast_tuple_target=8160);
CREATE TABLE report_pods_20261124 PARTITION OF report_pods FOR VALUES FROM ('2026-11-24 00:00:00+00') TO ('2026-11-25 00:00:00+00') WITH (toast_tuple_target=8160);
CREATE TABLE report_pods_20261125 PARTITION OF report_pods FOR VALUES FROM ('2026-11-25 00:00:00+00') TO ('2026-11-26 00:00:00+00') WITH (toast_tuple_target=8160);
ALTER SEQUENCE outbox_position_seq OWNED BY outbox.position;
ALTER TABLE agent_blocks ADD CONSTRAINT agent_blocks_pkey PRIMARY KEY (node, generation);
ALTER TABLE alembic_version ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE inbox ADD CONSTRAINT inbox_pkey PRIMARY KEY (consumer, event_id);
ALTER TABLE leases ADD CONSTRAINT leases_pkey PRIMARY KEY (partition);
ALTER TABLE members ADD CONSTRAINT members_pkey PRIMARY KEY (member);
ALTER TABLE nodes ADD CONSTRAINT nodes_pkey PRIMARY KEY (name);
ALTER TABLE outbox ADD CONSTRAINT outbox_id_key UNIQUE (id);
ALTER TABLE outbox ADD CONSTRAINT outbox_pkey PRIMARY KEY ("position");
ALTER TABLE pods ADD CONSTRAINT pods_pkey PRIMARY KEY (uid);
ALTER TABLE quarantine ADD CONSTRAINT quarantine_pkey PRIMARY KEY (id);
ALTER TABLE refusals ADD CONSTRAINT refusals_pkey PRIMARY KEY (node, reason);
CREATE INDEX inbox_handled_at ON inbox USING brin (handled_at);
CREATE INDEX node_usage_node ON ONLY node_usage USING btree (node, midpoint_at);
CREATE INDEX pods_gone ON pods USING btree (last_seen_at) WHERE ((NOT present) AND (liveness <> 'lost'::text));
CREATE INDEX pods_node ON pods USING btree (node);
CREATE INDEX report_pods_node ON ONLY report_pods USING btree (node, midpoint_at);
INSERT INTO agent_blocks (node, generation, blocked, reason, changed_by, changed_at) VALUES ('sim-03', '1', 'true', 'compatibility', 'local', '2026-11-23 16:32:48.915667+00');
INSERT INTO alembic_version (version_num) VALUES ('0008');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('0', 'host-60af100d-ingestion/16496-8edc2856', '1795451557755', '2026-11-23 16:32:37.755285+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('1', 'host-60af100d-ingestion/16496-8edc2856', '1795451557755', '2026-11-23 16:32:37.755299+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('2', 'host-60af100d-ingestion/16496-8edc2856', '1795451557755', '2026-11-23 16:32:37.755301+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('3', 'host-60af100d-ingestion/16496-8edc2856', '1795451557755', '2026-11-23 16:32:37.755302+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('4', 'host-60af100d-ingestion/16496-8edc2856', '1795451557755', '2026-11-23 16:32:37.755303+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('5', 'host-60af100d-ingestion/16496-8edc2856', '1795451557755', '2026-11-23 16:32:37.755304+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('6', 'host-60af100d-ingestion/16496-8edc2856', '1795451557755', '2026-11-23 16:32:37.755305+00');
INSERT INTO leases (partition, owner, epoch, changed_at) VALUES ('7', 'host-60af100d-ingestion/16496-8edc2856', '1795451557755', '2026-11-23 16:32:37.755306+00');
INSERT INTO members (member, joined_at, expires_at) VALUES ('host-60af100d-ingestion/16496-8edc2856', '2026-11-23 16:32:37.694726+00', '2026-11-23 16:33:47.417757+00');
INSERT INTO nodes (name, facts, described_epoch, described_at, cpu_capacity_milli, memory_capacity_bytes, boot_epoch, previous_epoch, last_sequence, missing, last_report_at, liveness, newest_at, closed_until, gaps, hole_from, hole_seen_at) VALUES ('sim-02', '{"name": "sim-02", "numa": [], "pool": "simulated", "driver": "simulated", "kernel": "simulated", "labels": {}, "capacity": {"cpu_milli": 8000, "memory_bytes": 34359738368}, "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "topology": {"cpus": 8, "cores": 8, "sockets": 1, "numa_nodes": 1}, "annotations": {}, "agent_version": "0.1.0", "cgroup_version": "none"}', '01a20940-a8dc-7913-876b-f0acd8c9c37e', '2026-11-23 16:32:42.205168+00', '8000', '34359738368', '01a20940-a8dc-7913-876b-f0acd8c9c37e', NULL, '55', '{}', '2026-11-23 16:33:37.212723+00', 'fresh', '2026-11-23 16:33:36.706413+00', '2026-11-23 16:33:37+00', '0', NULL, NULL);
INSERT INTO nodes (name, facts, described_epoch, described_at, cpu_capacity_milli, memory_capacity_bytes, boot_epoch, previous_epoch, last_sequence, missing, last_report_at, liveness, newest_at, closed_until, gaps, hole_from, hole_seen_at) VALUES ('sim-01', '{"name": "sim-01", "numa": [], "pool": "simulated", "driver": "simulated", "kernel": "simulated", "labels": {}, "capacity": {"cpu_milli": 8000, "memory_bytes": 34359738368}, "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "topology": {"cpus": 8, "cores": 8, "sockets": 1, "numa_nodes": 1}, "annotations": {}, "agent_version": "0.1.0", "cgroup_version": "none"}', '01a20940-a7e1-72f4-be7d-9c71049cf19a', '2026-11-23 16:32:41.953676+00', '8000', '34359738368', '01a20940-a7e1-72f4-be7d-9c71049cf19a', NULL, '56', '{}', '2026-11-23 16:33:37.957672+00', 'fresh', '2026-11-23 16:33:37.455282+00', '2026-11-23 16:33:39+00', '0', NULL, NULL);
INSERT INTO nodes (name, facts, described_epoch, described_at, cpu_capacity_milli, memory_capacity_bytes, boot_epoch, previous_epoch, last_sequence, missing, last_report_at, liveness, newest_at, closed_until, gaps, hole_from, hole_seen_at) VALUES ('sim-04', '{"name": "sim-04", "numa": [], "pool": "simulated", "driver": "simulated", "kernel": "simulated", "labels": {}, "capacity": {"cpu_milli": 8000, "memory_bytes": 34359738368}, "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "topology": {"cpus": 8, "cores": 8, "sockets": 1, "numa_nodes": 1}, "annotations": {}, "agent_version": "0.1.0", "cgroup_version": "none"}', '01a20940-aad3-72b5-a35f-94ef4862fe5d', '2026-11-23 16:32:42.707409+00', '8000', '34359738368', '01a20940-aad3-72b5-a35f-94ef4862fe5d', NULL, '55', '{}', '2026-11-23 16:33:37.715586+00', 'fresh', '2026-11-23 16:33:37.209626+00', '2026-11-23 16:33:39+00', '0', NULL, NULL);
INSERT INTO nodes (name, facts, described_epoch, described_at, cpu_capacity_milli, memory_capacity_bytes, boot_epoch, previous_epoch, last_sequence, missing, last_report_at, liveness, newest_at, closed_until, gaps, hole_from, hole_seen_at) VALUES ('sim-03', '{"name": "sim-03", "numa": [], "pool": "simulated", "driver": "simulated", "kernel": "simulated", "labels": {}, "capacity": {"cpu_milli": 8000, "memory_bytes": 34359738368}, "reserved": {"cpu_milli": 0, "memory_bytes": 0}, "topology": {"cpus": 8, "cores": 8, "sockets": 1, "numa_nodes": 1}, "annotations": {}, "agent_version": "0.1.0", "cgroup_version": "none"}', '01a20940-a9d6-7f73-ab85-08567a1fd4d2', '2026-11-23 16:32:42.454915+00', '8000', '34359738368', '01a20940-a9d6-7f73-ab85-08567a1fd4d2', NULL, '6', '{}', '2026-11-23 16:32:48.466596+00', 'stale', '2026-11-23 16:32:47.959577+00', '2026-11-23 16:32:49+00', '0', NULL, NULL);
INSERT INTO outbox ("position", id, type, subject, headers, payload, created_at, refused) VALUES ('95', '01a20941-9123-7e91-a09c-ea2b3fe9b143', 'usage.windowed.v1', 'sw.v1.usage.windowed.20.sim-01', '{"source": "ingestion", "time": "2026-11-23T16:33:41.663560+00:00", "causedby": null, "traceparent": "00-e44200cddf2bfae975ea2975647e60dd-a7e59845fa829335-00"}', '{"node":"sim-01","number":897725808,"window_start":"2026-11-23T16:33:37Z","window_seconds":2,"node_usage":{"cpu_avg_milli":839,"cpu_p90_milli":839,"cpu_p95_milli":839,"cpu_max_milli":839,"memory_avg_bytes":1073741824,"memory_p90_bytes":1073741824,"memory_p95_bytes":1073741824,"memory_max_bytes":1073741824,"samples":1},"system_usage":{"cpu_avg_milli":0,"cpu_p90_milli":0,"cpu_p95_milli":0,"cpu_max_milli":0,"memory_avg_bytes":0,"memory_p90_bytes":0,"memory_p95_bytes":0,"memory_max_bytes":0,"samples":1},"tiers":{"prod":{"cpu_avg_milli":839,"cpu_p90_milli":839,"cpu_p95_milli":839,"cpu_max_milli":839,"memory_avg_bytes":1073741824,"memory_p90_bytes":1073741824,"memory_p95_bytes":1073741824,"memory_max_bytes":1073741824,"samples":1}},"pods":[{"pod":{"uid":"sim-01-orders","name":"orders-sim-01","namespace":"default","workload":"orders","tier":"prod","qos":"LS","priority":9500,"request":{"cpu_milli":1600,"memory_bytes":1073741824},"started_at":"2026-11-23T16:32:41.922062Z","labels":{}},"usage":{"cpu_avg_milli":336,"cpu_p90_milli":336,"cpu_p95_milli":336,"cpu_max_milli":336,"memory_avg_bytes":536870912,"memory_p90_bytes":536870912,"memory_p95_bytes":536870912,"memory_max_bytes":536870912,"samples":1}},{"pod":{"uid":"sim-01-quotes","name":"quotes-sim-01","namespace":"default","workload":"quotes","tier":"prod","qos":"LS","priority":9500,"request":{"cpu_milli":2400,"memory_bytes":1073741824},"started_at":"2026-11-23T16:32:41.922062Z","labels":{}},"usage":{"cpu_avg_milli":503,"cpu_p90_milli":503,"cpu_p95_milli":503,"cpu_max_milli":503,"memory_avg_bytes":536870912,"memory_p90_bytes":536870912,"memory_p95_bytes":536870912,"memory_max_bytes":536870912,"samples":1}}],"reports":1,"gaps":0}', '2026-11-23 16:33:41.664543+00', NULL);
INSERT INTO outbox ("position", id, type, subject, headers, payload, created_at, refused) VALUES ('96', '01a20941-9123-78e7-b837-9600dee3fa8f', 'usage.windowed.v1', 'sw.v1.usage.windowed.27.sim-04', '{"source": "ingestion", "time": "2026-11-23T16:33:41.663560+00:00", "causedby": null, "traceparent": "00-4e6d01a7724ac5cea41269b4055ec835-496b762459d8d4c6-00"}', '{"node":"sim-04","number":897725808,"window_start":"2026-11-23T16:33:37Z","window_seconds":2,"node_usage":{"cpu_avg_milli":823,"cpu_p90_milli":823,"cpu_p95_milli":823,"cpu_max_milli":823,"memory_avg_bytes":1073741824,"memory_p90_bytes":1073741824,"memory_p95_bytes":1073741824,"memory_max_bytes":1073741824,"samples":1},"system_usage":{"cpu_avg_milli":0,"cpu_p90_milli":0,"cpu_p95_milli":0,"cpu_max_milli":0,"memory_avg_bytes":0,"memory_p90_bytes":0,"memory_p95_bytes":0,"memory_max_bytes":0,"samples":1},"tiers":{"prod":{"cpu_avg_milli":823,"cpu_p90_milli":823,"cpu_p95_milli":823,"cpu_max_milli":823,"memory_avg_bytes":1073741824,"memory_p90_bytes":1073741824,"memory_p95_bytes":1073741824,"memory_max_bytes":1073741824,"samples":1}},"pods":[{"pod":{"uid":"sim-04-orders","name":"orders-sim-04","namespace":"default","workload":"orders","tier":"prod","qos":"LS","priority":9500,"request":{"cpu_milli":1600,"memory_bytes":1073741824},"started_at":"2026-11-23T16:32:41.922415Z","labels":{}},"usage":{"cpu_avg_milli":329,"cpu_p90_milli":329,"cpu_p95_milli":329,"cpu_max_milli":329,"memory_avg_bytes":536870912,"memory_p90_bytes":536870912,"memory_p95_bytes":536870912,"memory_max_bytes":536870912,"samples":1}},{"pod":{"uid":"sim-04-quotes","name":"quotes-sim-04","namespace":"default","workload":"quotes","tier":"prod","qos":"LS","priority":9500,"request":{"cpu_milli":2400,"memory_bytes":1073741824},"started_at":"2026-11-23T16:32:41.922415Z","labels":{}},"usage":{"cpu_avg_milli":494,"cpu_p90_milli":494,"cpu_p95_milli":494,"cpu_max_milli":494,"memory_avg_bytes":536870912,"memory_p90_bytes":536870912,"memory_p95_bytes":536870912,"memory_max_bytes":536870912,"samples":1}}],"reports":1,"gaps":0}', '2026-11-23 16:33:41.664543+00', NULL);
INSERT INTO outbox ("position", id, type, subject, headers, payload, created_at, refused) VALUES ('94', '01a20941-8c60-7af9-b95f-501e8eff6a0d', 'usage.windowed.v1', 'sw.v1.usage.windowed.46.sim-02', '{"source": "ingestion", "time": "2026-11-23T16:33:40.442040+00:00", "causedby": null, "traceparent": "00-196badc01c3d536c761ab8d881b0f848-8c1c727ed4f21745-00"}', '{"node":"sim-02","number":897725807,"window_start":"2026-11-23T16:33:35Z","window_seconds":2,"node_usage":{"cpu_avg_milli":778,"cpu_p90_milli":789,"cpu_p95_milli":789,"cpu_max_milli":789,"memory_avg_bytes":1073741824,"memory_p90_bytes":1073741824,"memory_p95_bytes":1073741824,"memory_max_bytes":1073741824,"samples":2},"system_usage":{"cpu_avg_milli":1,"cpu_p90_milli":1,"cpu_p95_milli":1,"cpu_max_milli":1,"memory_avg_bytes":0,"memory_p90_bytes":0,"memory_p95_bytes":0,"memory_max_bytes":0,"samples":2},"tiers":{"prod":{"cpu_avg_milli":778,"cpu_p90_milli":790,"cpu_p95_milli":790,"cpu_max_milli":790,"memory_avg_bytes":1073741824,"memory_p90_bytes":1073741824,"memory_p95_bytes":1073741824,"memory_max_bytes":1073741824,"samples":2}},"pods":[{"pod":{"uid":"sim-02-orders","name":"orders-sim-02","namespace":"default","workload":"orders","tier":"prod","qos":"LS","priority":9500,"request":{"cpu_milli":1600,"memory_bytes":1073741824},"started_at":"2026-11-23T16:32:41.922348Z","labels":{}},"usage":{"cpu_avg_milli":311,"cpu_p90_milli":316,"cpu_p95_milli":316,"cpu_max_milli":316,"memory_avg_bytes":536870912,"memory_p90_bytes":536870912,"memory_p95_bytes":536870912,"memory_max_bytes":536870912,"samples":2}},{"pod":{"uid":"sim-02-quotes","name":"quotes-sim-02","namespace":"default","workload":"quotes","tier":"prod","qos":"LS","priority":9500,"request":{"cpu_milli":2400,"memory_bytes":1073741824},"started_at":"2026-11-23T16:32:41.922348Z","labels":{}},"usage":{"cpu_avg_milli":467,"cpu_p90_milli":474,"cpu_p95_milli":474,"cpu_max_milli":474,"memory_avg_bytes":536870912,"memory_p90_bytes":536870912,"memory_p95_bytes":536870912,"memory_max_bytes":536870912,"samples":2}}],"reports":2,"gaps":0}', '2026-11-23 16:33:40.445172+00', NULL);
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-02-orders', 'sim-02', '{"qos": "LS", "uid": "sim-02-orders", "name": "orders-sim-02", "tier": "prod", "labels": {}, "request": {"cpu_milli": 1600, "memory_bytes": 1073741824}, "priority": 9500, "workload": "orders", "namespace": "default", "started_at": "2026-11-23T16:32:41.922348Z"}', '2026-11-23 16:32:52.217461+00', 'fresh', 'true');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-02-quotes', 'sim-02', '{"qos": "LS", "uid": "sim-02-quotes", "name": "quotes-sim-02", "tier": "prod", "labels": {}, "request": {"cpu_milli": 2400, "memory_bytes": 1073741824}, "priority": 9500, "workload": "quotes", "namespace": "default", "started_at": "2026-11-23T16:32:41.922348Z"}', '2026-11-23 16:32:52.217461+00', 'fresh', 'true');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-01-orders', 'sim-01', '{"qos": "LS", "uid": "sim-01-orders", "name": "orders-sim-01", "tier": "prod", "labels": {}, "request": {"cpu_milli": 1600, "memory_bytes": 1073741824}, "priority": 9500, "workload": "orders", "namespace": "default", "started_at": "2026-11-23T16:32:41.922062Z"}', '2026-11-23 16:32:51.958163+00', 'fresh', 'true');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-01-quotes', 'sim-01', '{"qos": "LS", "uid": "sim-01-quotes", "name": "quotes-sim-01", "tier": "prod", "labels": {}, "request": {"cpu_milli": 2400, "memory_bytes": 1073741824}, "priority": 9500, "workload": "quotes", "namespace": "default", "started_at": "2026-11-23T16:32:41.922062Z"}', '2026-11-23 16:32:51.958163+00', 'fresh', 'true');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-04-orders', 'sim-04', '{"qos": "LS", "uid": "sim-04-orders", "name": "orders-sim-04", "tier": "prod", "labels": {}, "request": {"cpu_milli": 1600, "memory_bytes": 1073741824}, "priority": 9500, "workload": "orders", "namespace": "default", "started_at": "2026-11-23T16:32:41.922415Z"}', '2026-11-23 16:32:51.719792+00', 'fresh', 'true');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-04-quotes', 'sim-04', '{"qos": "LS", "uid": "sim-04-quotes", "name": "quotes-sim-04", "tier": "prod", "labels": {}, "request": {"cpu_milli": 2400, "memory_bytes": 1073741824}, "priority": 9500, "workload": "quotes", "namespace": "default", "started_at": "2026-11-23T16:32:41.922415Z"}', '2026-11-23 16:32:51.719792+00', 'fresh', 'true');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-02-index', 'sim-02', '{"qos": "BE", "uid": "sim-02-index", "name": "index-sim-02", "tier": "batch", "labels": {}, "request": {"cpu_milli": 800, "memory_bytes": 1073741824}, "priority": 5500, "workload": "index", "namespace": "default", "started_at": "2026-11-23T16:32:41.922348Z"}', '2026-11-23 16:32:51.209099+00', 'stale', 'false');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-01-index', 'sim-01', '{"qos": "BE", "uid": "sim-01-index", "name": "index-sim-01", "tier": "batch", "labels": {}, "request": {"cpu_milli": 800, "memory_bytes": 1073741824}, "priority": 5500, "workload": "index", "namespace": "default", "started_at": "2026-11-23T16:32:41.922062Z"}', '2026-11-23 16:32:50.961275+00', 'stale', 'false');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-04-index', 'sim-04', '{"qos": "BE", "uid": "sim-04-index", "name": "index-sim-04", "tier": "batch", "labels": {}, "request": {"cpu_milli": 800, "memory_bytes": 1073741824}, "priority": 5500, "workload": "index", "namespace": "default", "started_at": "2026-11-23T16:32:41.922415Z"}', '2026-11-23 16:32:50.728581+00', 'stale', 'false');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-02-crunch', 'sim-02', '{"qos": "BE", "uid": "sim-02-crunch", "name": "crunch-sim-02", "tier": "batch", "labels": {}, "request": {"cpu_milli": 1200, "memory_bytes": 1073741824}, "priority": 5500, "workload": "crunch", "namespace": "default", "started_at": "2026-11-23T16:32:41.922348Z"}', '2026-11-23 16:32:50.220301+00', 'stale', 'false');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-01-crunch', 'sim-01', '{"qos": "BE", "uid": "sim-01-crunch", "name": "crunch-sim-01", "tier": "batch", "labels": {}, "request": {"cpu_milli": 1200, "memory_bytes": 1073741824}, "priority": 5500, "workload": "crunch", "namespace": "default", "started_at": "2026-11-23T16:32:41.922062Z"}', '2026-11-23 16:32:49.962623+00', 'stale', 'false');
INSERT INTO pods (uid, node, pod, last_seen_at, liveness, present) VALUES ('sim-04-crunch', 'sim-04', '{"qos": "BE", "uid": "sim-04-crunch", "name": "crunch-sim-04", "tier": "batch", "labels": {}, "request": {"cpu_milli": 1200, "memory_bytes": 1073741824}, "priority": 5500, "workload": "crunch", "namespace": "default", "started_at": "2026-11-23T16:32:41.922415Z"}', '2026-11-23 16:32:49.721518+00', 'stale', 'false');
INSERT INTO refusals (node, reason, count, last_at) VALUES ('sim-02', 'clock_skew', '1', '2026-11-23 16:32:48.998438+00');
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:37.455282+00', 'sim-01', '01a20940-a7e1-72f4-be7d-9c71049cf19a', '56', '2026-11-23 16:33:37.955782+00', '2026-11-23 16:33:37.957672+00', '1.001', '0', 'false', '{839,839,839,839,839,839,839,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.002097667108757328', '0.002097667108757328', '0.002097667108757328', NULL, NULL, '0.002097667108757328', '0.002097667108757328', '0.002097667108757328', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:37.209626+00', 'sim-04', '01a20940-aad3-72b5-a35f-94ef4862fe5d', '55', '2026-11-23 16:33:37.711126+00', '2026-11-23 16:33:37.715586+00', '1.003', '0', 'false', '{823,823,823,823,823,823,823,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.00205775507246387', '0.00205775507246387', '0.00205775507246387', NULL, NULL, '0.00205775507246387', '0.00205775507246387', '0.00205775507246387', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:36.706413+00', 'sim-02', '01a20940-a8dc-7913-876b-f0acd8c9c37e', '55', '2026-11-23 16:33:37.206913+00', '2026-11-23 16:33:37.212723+00', '1.001', '0', 'false', '{789,789,789,789,789,789,789,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.0019735661607654525', '0.0019735661607654525', '0.0019735661607654525', NULL, NULL, '0.0019735661607654525', '0.0019735661607654525', '0.0019735661607654525', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:36.455141+00', 'sim-01', '01a20940-a7e1-72f4-be7d-9c71049cf19a', '55', '2026-11-23 16:33:36.955141+00', '2026-11-23 16:33:36.960003+00', '1', '0', 'false', '{775,775,775,775,775,775,775,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.001938569094860928', '0.001938569094860928', '0.001938569094860928', NULL, NULL, '0.001938569094860928', '0.001938569094860928', '0.001938569094860928', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:36.209588+00', 'sim-04', '01a20940-aad3-72b5-a35f-94ef4862fe5d', '54', '2026-11-23 16:33:36.708588+00', '2026-11-23 16:33:36.713411+00', '0.998', '0', 'false', '{806,806,806,806,806,806,806,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.002016132159636095', '0.002016132159636095', '0.002016132159636095', NULL, NULL, '0.002016132159636095', '0.002016132159636095', '0.002016132159636095', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:35.707186+00', 'sim-02', '01a20940-a8dc-7913-876b-f0acd8c9c37e', '54', '2026-11-23 16:33:36.206186+00', '2026-11-23 16:33:36.211047+00', '0.998', '0', 'false', '{766,766,766,766,766,766,766,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{1,1,1,1,1,1,1,1}', '{0,0,0,0,0,0,0,1}', '0.001914698070830333', '0.001914698070830333', '0.001914698070830333', NULL, NULL, '0.001914698070830333', '0.001914698070830333', '0.001914698070830333', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:35.455481+00', 'sim-01', '01a20940-a7e1-72f4-be7d-9c71049cf19a', '54', '2026-11-23 16:33:35.954981+00', '2026-11-23 16:33:35.959637+00', '0.999', '0', 'false', '{4753,4753,4753,4753,4753,4753,4753,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.011881853967854529', '0.011881853967854529', '0.011881853967854529', NULL, NULL, '0.011881853967854529', '0.011881853967854529', '0.011881853967854529', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:35.209719+00', 'sim-04', '01a20940-aad3-72b5-a35f-94ef4862fe5d', '53', '2026-11-23 16:33:35.710719+00', '2026-11-23 16:33:35.717886+00', '1.002', '0', 'false', '{4949,4949,4949,4949,4949,4949,4949,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{1,1,1,1,1,1,1,1}', '{0,0,0,0,0,0,0,1}', '0.012370576733246668', '0.012370576733246668', '0.012370576733246668', NULL, NULL, '0.012370576733246668', '0.012370576733246668', '0.012370576733246668', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:34.707608+00', 'sim-02', '01a20940-a8dc-7913-876b-f0acd8c9c37e', '53', '2026-11-23 16:33:35.208108+00', '2026-11-23 16:33:35.22065+00', '1.001', '0', 'false', '{4870,4870,4870,4870,4870,4870,4870,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.012174754820715339', '0.012174754820715339', '0.012174754820715339', NULL, NULL, '0.012174754820715339', '0.012174754820715339', '0.012174754820715339', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:34.455516+00', 'sim-01', '01a20940-a7e1-72f4-be7d-9c71049cf19a', '53', '2026-11-23 16:33:34.956016+00', '2026-11-23 16:33:34.962982+00', '1.001', '0', 'false', '{4952,4952,4952,4952,4952,4952,4952,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.012379312122810076', '0.012379312122810076', '0.012379312122810076', NULL, NULL, '0.012379312122810076', '0.012379312122810076', '0.012379312122810076', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:34.208647+00', 'sim-04', '01a20940-aad3-72b5-a35f-94ef4862fe5d', '52', '2026-11-23 16:33:34.708647+00', '2026-11-23 16:33:34.718649+00', '1', '0', 'false', '{4948,4948,4948,4948,4948,4948,4948,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.01237116872377599', '0.01237116872377599', '0.01237116872377599', NULL, NULL, '0.01237116872377599', '0.01237116872377599', '0.01237116872377599', NULL);
INSERT INTO node_usage_20261123 (midpoint_at, node, boot_epoch, sequence, sampled_at, received_at, window_seconds, gap_delta, late, cpu, memory, system_cpu, system_memory, node_cpu_last, node_cpu_avg, node_cpu_max, node_memory_avg, node_io_avg, prod_cpu_last, prod_cpu_avg, prod_cpu_max, host_apps) VALUES ('2026-11-23 16:33:33.706396+00', 'sim-02', '01a20940-a8dc-7913-876b-f0acd8c9c37e', '52', '2026-11-23 16:33:34.206896+00', '2026-11-23 16:33:34.217865+00', '1.001', '0', 'false', '{4944,4944,4944,4944,4944,4944,4944,1}', '{1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1073741824,1}', '{0,0,0,0,0,0,0,1}', '{0,0,0,0,0,0,0,1}', '0.012360879848899674', '0.012360879848899674', '0.012360879848899674', NULL, NULL, '0.012360879848899674', '0.012360879848899674', '0.012360879848899674', NULL);
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:37.455282+00', 'sim-01', '01a20940-a7e1-72f4-be7d-9c71049cf19a', '56', '{sim-01-orders,sim-01-quotes}', '{prod,prod}', '{{336,336,336,336,336,336,336,1},{503,503,503,503,503,503,503,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.002097667108757328,0.002097667108757328}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:37.209626+00', 'sim-04', '01a20940-aad3-72b5-a35f-94ef4862fe5d', '55', '{sim-04-orders,sim-04-quotes}', '{prod,prod}', '{{329,329,329,329,329,329,329,1},{494,494,494,494,494,494,494,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.00205775507246387,0.00205775507246387}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:36.706413+00', 'sim-02', '01a20940-a8dc-7913-876b-f0acd8c9c37e', '55', '{sim-02-orders,sim-02-quotes}', '{prod,prod}', '{{316,316,316,316,316,316,316,1},{474,474,474,474,474,474,474,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.0019735661607654525,0.0019735661607654525}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:36.455141+00', 'sim-01', '01a20940-a7e1-72f4-be7d-9c71049cf19a', '55', '{sim-01-orders,sim-01-quotes}', '{prod,prod}', '{{310,310,310,310,310,310,310,1},{465,465,465,465,465,465,465,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.001938569094860928,0.001938569094860928}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:36.209588+00', 'sim-04', '01a20940-aad3-72b5-a35f-94ef4862fe5d', '54', '{sim-04-orders,sim-04-quotes}', '{prod,prod}', '{{323,323,323,323,323,323,323,1},{484,484,484,484,484,484,484,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.002016132159636095,0.002016132159636095}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:35.707186+00', 'sim-02', '01a20940-a8dc-7913-876b-f0acd8c9c37e', '54', '{sim-02-orders,sim-02-quotes}', '{prod,prod}', '{{306,306,306,306,306,306,306,1},{459,459,459,459,459,459,459,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.001914698070830333,0.001914698070830333}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:35.455481+00', 'sim-01', '01a20940-a7e1-72f4-be7d-9c71049cf19a', '54', '{sim-01-orders,sim-01-quotes}', '{prod,prod}', '{{1901,1901,1901,1901,1901,1901,1901,1},{2852,2852,2852,2852,2852,2852,2852,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.011881853967854529,0.011881853967854529}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:35.209719+00', 'sim-04', '01a20940-aad3-72b5-a35f-94ef4862fe5d', '53', '{sim-04-orders,sim-04-quotes}', '{prod,prod}', '{{1979,1979,1979,1979,1979,1979,1979,1},{2969,2969,2969,2969,2969,2969,2969,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.012370576733246668,0.012370576733246668}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:34.707608+00', 'sim-02', '01a20940-a8dc-7913-876b-f0acd8c9c37e', '53', '{sim-02-orders,sim-02-quotes}', '{prod,prod}', '{{1948,1948,1948,1948,1948,1948,1948,1},{2922,2922,2922,2922,2922,2922,2922,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.012174754820715339,0.012174754820715339}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:34.455516+00', 'sim-01', '01a20940-a7e1-72f4-be7d-9c71049cf19a', '53', '{sim-01-orders,sim-01-quotes}', '{prod,prod}', '{{1981,1981,1981,1981,1981,1981,1981,1},{2971,2971,2971,2971,2971,2971,2971,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.012379312122810076,0.012379312122810076}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:34.208647+00', 'sim-04', '01a20940-aad3-72b5-a35f-94ef4862fe5d', '52', '{sim-04-orders,sim-04-quotes}', '{prod,prod}', '{{1979,1979,1979,1979,1979,1979,1979,1},{2969,2969,2969,2969,2969,2969,2969,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.01237116872377599,0.01237116872377599}');
INSERT INTO report_pods_20261123 (midpoint_at, node, boot_epoch, sequence, uids, tiers, cpu, memory, cpu_limits, throttled, cpu_pressure) VALUES ('2026-11-23 16:33:33.706396+00', 'sim-02', '01a20940-a8dc-7913-876b-f0acd8c9c37e', '52', '{sim-02-orders,sim-02-quotes}', '{prod,prod}', '{{1978,1978,1978,1978,1978,1978,1978,1},{2967,2967,2967,2967,2967,2967,2967,1}}', '{{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1},{536870912,536870912,536870912,536870912,536870912,536870912,536870912,1}}', '{-1,-1}', '{0,0}', '{0.012360879848899674,0.012360879848899674}');
SELECT setval('outbox_position_seq', 96);

{{- /* Helpers of workloads take a dict: `root` ($), `own` (the workload's values), `image` (path of its image). */}}

{{- define "slackwater.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- with .Values.common.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* What begins the names of objects. */}}
{{- define "slackwater.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "slackwater.prefix" -}}
{{- if not .Values.plainNames }}{{ include "slackwater.fullname" . }}-{{ end }}
{{- end }}

{{- /* The name of an object: takes a list of the root and its name in deploy/kubernetes. */}}
{{- define "slackwater.named" -}}
{{- $root := index . 0 }}
{{- if $root.Values.plainNames }}{{ index . 1 }}
{{- else }}{{ include "slackwater.prefix" $root }}{{ index . 1 | trimPrefix "slackwater-" }}{{ end }}
{{- end }}

{{- /* Further labels of pods and selectors: two releases may share a namespace. */}}
{{- define "slackwater.instance" -}}
{{- if not .Values.plainNames }}app.kubernetes.io/instance: {{ .Release.Name }}{{ end }}
{{- end }}

{{- define "slackwater.instanceSelector" -}}
{{- with include "slackwater.instance" . }}
matchLabels:
  {{ . }}
{{- end }}
{{- end }}

{{- define "slackwater.everyPod" -}}
{{- if .Values.plainNames }}
{}
{{- else }}
matchLabels:
  app.kubernetes.io/part-of: slackwater
  {{ include "slackwater.instance" . }}
{{- end }}
{{- end }}

{{- define "slackwater.agentsNamespace" -}}
{{- .Values.agent.namespace | default .Release.Namespace }}
{{- end }}

{{- define "slackwater.imageValues" -}}
{{- $image := deepCopy .root.Values.image }}
{{- if eq .image "agent" }}{{ $image = mergeOverwrite $image (dict "repository" (printf "%s-agent" $image.repository) "digest" "") }}{{ end }}
{{- if .image }}
{{- $own := .own.image }}
{{- if ne .image "agent" }}{{ $image = dict "registry" $image.registry "pullPolicy" $image.pullPolicy }}{{ end }}
{{- range $key := list "registry" "repository" "tag" "digest" "pullPolicy" }}
{{- with get $own $key }}{{ $_ := set $image $key . }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml $image }}
{{- end }}

{{- define "slackwater.image" -}}
{{- $image := include "slackwater.imageValues" . | fromYaml }}
{{- $name := $image.repository }}
{{- with $image.registry }}{{ $name = printf "%s/%s" . $name }}{{ end }}
{{- if $image.digest }}{{ printf "%s@%s" $name $image.digest }}
{{- else }}{{ printf "%s:%s" $name ($image.tag | default .root.Chart.AppVersion) }}{{ end }}
{{- end }}

{{- define "slackwater.pullPolicy" -}}
{{- (include "slackwater.imageValues" . | fromYaml).pullPolicy | default "IfNotPresent" }}
{{- end }}

{{- define "slackwater.natsUrl" -}}
{{- if .Values.nats.external.url }}{{ .Values.nats.external.url }}
{{- else }}{{ include "slackwater.brokerUrls" (list . "tls" 4222) }}{{ end }}
{{- end }}

{{- define "slackwater.brokerRoutes" -}}
{{- include "slackwater.brokerUrls" (list . "nats-route" 6222) }}
{{- end }}

{{- /* Addresses of all brokers, of a scheme and a port. */}}
{{- define "slackwater.brokerUrls" -}}
{{- $scheme := index . 1 }}{{ $port := index . 2 }}{{ $urls := list }}
{{- range splitList " " (include "slackwater.brokerHosts" (index . 0)) }}
{{- $urls = append $urls (printf "%s://%s:%v" $scheme . $port) }}
{{- end }}
{{- join "," $urls }}
{{- end }}

{{- define "slackwater.brokerHosts" -}}
{{- $nats := include "slackwater.named" (list . "nats") }}
{{- if gt (int .Values.nats.replicas) 1 }}
{{- $service := include "slackwater.brokersService" . }}{{ $hosts := list }}
{{- range until (int .Values.nats.replicas) }}
{{- $hosts = append $hosts (printf "%s-%d.%s.%s.svc" $nats . $service $.Release.Namespace) }}
{{- end }}
{{- join " " $hosts }}
{{- else }}{{ printf "%s.%s.svc" $nats .Release.Namespace }}{{ end }}
{{- end }}

{{- /* The service that governs the brokers; several need one that names each. */}}
{{- define "slackwater.brokersService" -}}
{{- include "slackwater.named" (list . (ternary "nats-brokers" "nats" (gt (int .Values.nats.replicas) 1))) }}
{{- end }}

{{- define "slackwater.podLabels" -}}
{{- $instance := include "slackwater.instance" .root | fromYaml }}
{{- with merge (dict) $instance (.own.podLabels | default dict) .root.Values.common.podLabels }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "slackwater.podAnnotations" -}}
{{- with merge (dict) .own.podAnnotations .root.Values.common.podAnnotations }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "slackwater.placement" -}}
{{- $found := dict }}
{{- with .root.Values.imagePullSecrets }}{{ $_ := set $found "imagePullSecrets" . }}{{ end }}
{{- $own := .own }}
{{- $common := .root.Values.common }}
{{- range list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" }}
{{- $value := get $own . | default (get $common .) }}
{{- if $value }}{{ $_ := set $found . $value }}{{ end }}
{{- end }}
{{- with $found }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "slackwater.extraArgs" -}}
{{- with .own.extraArgs }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* The variables of a container, `given`, each replaced by one of the same name in the values; then the others of the
       values. A workload's own go before those of every pod. */}}
{{- define "slackwater.env" -}}
{{- $values := dict }}
{{- $order := list }}
{{- range concat .root.Values.common.extraEnv (.own.extraEnv | default list) }}
{{- $_ := set $values .name . }}
{{- $order = append $order .name }}
{{- end }}
{{- $found := list }}
{{- range .given | fromYamlArray }}
{{- $found = append $found (get $values .name | default .) }}
{{- $_ := unset $values .name }}
{{- end }}
{{- range $order | uniq }}
{{- with get $values . }}{{ $found = append $found . }}{{ end }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{- /* Whether a feature of the service kubernetes is on, or withdraws what it wrote: takes a list of the root and its name. */}}
{{- define "slackwater.feature" -}}
{{- $values := (index . 0).Values.kubernetes }}
{{- $value := get $values (index . 1) | toString }}
{{- if or $values.withdraw (not (has $value (list "false" "off" ""))) }}on{{ end }}
{{- end }}

{{- define "slackwater.env.kubernetesFeatures" -}}
{{- with .Values.kubernetes }}
{{- if not .offers }}
- {name: SLACKWATER_KUBERNETES_WRITE_OFFERS, value: "false"}
{{- end }}
{{- if ne .evictions "carry-out" }}
- {name: SLACKWATER_KUBERNETES_EVICTIONS, value: {{ .evictions | quote }}}
{{- end }}
{{- if ne .cordons "NoSchedule" }}
- {name: SLACKWATER_KUBERNETES_CORDONS, value: {{ .cordons | quote }}}
{{- end }}
{{- if ne .profiles "auto" }}
- {name: SLACKWATER_KUBERNETES_PROFILES, value: {{ .profiles | quote }}}
{{- end }}
{{- end }}
{{- if .Values.kubernetes.documents }}
- {name: SLACKWATER_KUBERNETES_DOCUMENTS_URL, value: "http://{{ include "slackwater.prefix" . }}{service}.{{ .Release.Namespace }}.svc:8460"}
- {name: SLACKWATER_KUBERNETES_DOCUMENTS_TOKEN_FILE, value: /run/secrets/slackwater/documents-token}
{{- end }}
{{- if not .Values.plainNames }}
- {name: SLACKWATER_KUBERNETES_WEBHOOK_SERVICE, value: {{ include "slackwater.named" (list . "kubernetes-webhook") }}}
{{- end }}
{{- if ne (include "slackwater.agentsNamespace" .) "slackwater-node" }}
- {name: SLACKWATER_KUBERNETES_AGENTS_NAMESPACE, value: {{ include "slackwater.agentsNamespace" . }}}
{{- end }}
{{- end }}

{{- define "slackwater.env.agentFeatures" -}}
{{- if not .Values.agent.access.hostPath }}
- {name: SLACKWATER_NATS_IDENTITY_FILE, value: /etc/slackwater/agent/identity}
{{- end }}
{{- with .Values.agent.metrics }}
{{- if .enabled }}
- {name: SLACKWATER_AGENT_METRICS_HOST, value: 0.0.0.0}
- {name: SLACKWATER_AGENT_METRICS_PORT, value: {{ .port | quote }}}
- {name: SLACKWATER_AGENT_METRICS_TOKENS_FILE, value: /etc/slackwater/agent/tokens}
{{- end }}
{{- end }}
{{- end }}

{{- /* What agents ask for access with: the enrolment of their node, or one of all and the token of their pod. */}}
{{- define "slackwater.agentAccess" -}}
- name: credentials
{{- with .Values.agent.access }}
{{- if .hostPath }}
  hostPath:
    path: {{ .hostPath }}
    type: Directory
{{- else }}
  projected:
    defaultMode: 256
    sources:
      - secret:
          name: {{ .secretName | default (include "slackwater.named" (list $ "agent-access")) }}
      - serviceAccountToken: {audience: slackwater, expirationSeconds: 3600, path: identity}
{{- end }}
{{- end }}
{{- end }}

{{- define "slackwater.extraVolumes" -}}
{{- with concat .root.Values.common.extraVolumes (.own.extraVolumes | default list) }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "slackwater.extraVolumeMounts" -}}
{{- with concat .root.Values.common.extraVolumeMounts (.own.extraVolumeMounts | default list) }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* When the job migrate runs: before anything else, as a hook; but on a first install PostgreSQL of this chart is not
       there before, so that the job starts with everything else, and the services wait for it. (A post-install hook
       would wait for the services under `--wait`, and they for the hook.) Where PostgreSQL exists already, as of plain
       manifests that are taken over, it runs before. */}}
{{- define "slackwater.hook" -}}
{{- $exists := lookup "apps/v1" "StatefulSet" .Release.Namespace (include "slackwater.named" (list . "postgres")) }}
helm.sh/resource-policy: keep
{{- if or $exists .Values.postgresql.external.host (not .Release.IsInstall) }}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: "0"
helm.sh/hook-delete-policy: before-hook-creation
{{- end }}
{{- end }}

{{- /* Egress to a server outside of the chart. */}}
{{- define "slackwater.external" -}}
- ports: [{port: {{ .port }}, protocol: TCP}]
{{- with .cidrs }}
  to:
{{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- /* The broker's configuration, with a certificate of cert-manager in place of its own. */}}
{{- define "slackwater.natsConfig" -}}
{{- $secret := .Values.nats.secretName | default (include "slackwater.named" (list . "nats")) -}}
- name: config
{{- if .Values.certManager.enabled }}
  projected:
    defaultMode: 288
    sources:
      - secret:
          name: {{ $secret }}
          items:
            - {key: nats-server.conf, path: nats-server.conf}
            - {key: access.conf, path: access.conf}
            - {key: cluster.conf, path: cluster.conf}
      - secret:
          name: {{ .Values.certManager.caSecret.name }}
          items:
            - {key: {{ .Values.certManager.caSecret.key }}, path: ca.crt}
      - secret:
          name: {{ include "slackwater.named" (list . "nats-tls") }}
          items:
            - {key: tls.crt, path: tls.crt}
            - {key: tls.key, path: tls.key}
{{- else }}
  secret:
    secretName: {{ $secret }}
    defaultMode: 288
{{- end }}
{{- end }}

{{- /* The secret with the authority of the broker's certificate, where it is another's: as YAML. */}}
{{- define "slackwater.natsAuthority" -}}
{{- if .Values.nats.external.url }}{{ with .Values.nats.external.caSecret }}{{ if .name }}{{ toYaml . }}{{ end }}{{ end }}
{{- else if .Values.certManager.enabled }}
{{- $_ := required "certManager.caSecret.name: is needed, so that services trust the broker" .Values.certManager.caSecret.name }}
{{- toYaml .Values.certManager.caSecret }}
{{- end }}
{{- end }}

{{- define "slackwater.natsHosts" -}}
{{- $host := include "slackwater.named" (list . "nats") }}
{{- printf "%s.%s.svc %s.%s %s" $host .Release.Namespace $host .Release.Namespace $host }}
{{- if gt (int .Values.nats.replicas) 1 }} {{ include "slackwater.brokerHosts" . }}{{ end }}
{{- end }}

{{- /* Egress to the API server, whose address a policy cannot name. */}}
{{- define "slackwater.toApiServer" -}}
- ports:
{{- range .Values.networkPolicy.apiServerPorts }}
    - port: {{ . }}
      protocol: TCP
{{- end }}
{{- with .Values.networkPolicy.apiServerCidrs }}
  to:
{{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- /* DNS beside that of kube-system. */}}
{{- define "slackwater.toDns" -}}
{{- range .Values.networkPolicy.dnsCidrs }}
- ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end }}

{{- /* Names, labels, selectors and addresses of a release. */}}

{{- define "slackwater.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- with include "slackwater.furtherLabels" .Values.common.labels }}
{{ . }}
{{- end }}
{{- end }}

{{- /* Labels of the values without those that the chart sets, which select and name its objects. */}}
{{- define "slackwater.furtherLabels" -}}
{{- $own := list "name" "part-of" "instance" "version" "managed-by" }}{{ $labels := omit . "helm.sh/chart" }}
{{- range $own }}{{ $labels = omit $labels (printf "app.kubernetes.io/%s" .) }}{{ end }}
{{- with $labels }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* What begins the names of objects. */}}
{{- define "slackwater.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- $release := .Release.Name | replace "." "-" }}
{{- $full := contains $name $release | ternary $release (printf "%s-%s" $release $name) }}
{{- $full = .Values.fullnameOverride | default $full }}
{{- /* The name of a Service has no dot, and must not begin with a digit before Kubernetes 1.34. */}}
{{- if regexMatch "^[0-9]" $full }}{{ $full = printf "sw-%s" $full }}{{ end }}
{{- /* Two long names that begin alike differ in a digest of the whole. */}}
{{- if gt (len $full) 40 }}{{ printf "%s-%s" ($full | trunc 31 | trimSuffix "-") ($full | sha256sum | trunc 8) }}
{{- else }}{{ $full | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "slackwater.prefix" -}}
{{- if not .Values.plainNames }}{{ include "slackwater.fullname" . }}-{{ end }}
{{- end }}

{{- /* The name of an object in the release: takes a list of the root and its plain name. */}}
{{- define "slackwater.named" -}}
{{- $root := index . 0 }}
{{- if $root.Values.plainNames }}{{ index . 1 }}
{{- else }}{{ include "slackwater.prefix" $root }}{{ index . 1 | trimPrefix "slackwater-" }}{{ end }}
{{- end }}

{{- /* The metadata of an object: takes a dict of `root`, its plain `name`, and if it has them `component` (the label
       app.kubernetes.io/name), `annotations`, `namespace` (that of the release), `cluster` (no namespace). */}}
{{- define "slackwater.metadata" -}}
name: {{ include "slackwater.named" (list .root .name) }}
{{- if not .cluster }}
namespace: {{ .namespace | default .root.Release.Namespace | quote }}
{{- end }}
labels:
  {{- with .component }}
  app.kubernetes.io/name: {{ . }}
  {{- end }}
  app.kubernetes.io/part-of: slackwater
  {{- include "slackwater.labels" .root | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A further label of pods and selectors: two releases may share a namespace. */}}
{{- define "slackwater.instance" -}}
{{- if not .Values.plainNames }}app.kubernetes.io/instance: {{ .Release.Name | quote }}{{ end }}
{{- end }}

{{- /* The labels that select the pods of a component, as JSON: takes a list of the root and its name. */}}
{{- define "slackwater.selector" -}}
{{- $labels := include "slackwater.instance" (index . 0) | fromYaml }}
{{- toJson (set $labels "app.kubernetes.io/name" (index . 1)) }}
{{- end }}

{{- /* A podSelector of one component, of several, or of every pod, as JSON: takes a list of the root and their names. */}}
{{- define "slackwater.pods" -}}
{{- $root := first . }}{{ $names := rest . }}
{{- $labels := include "slackwater.instance" $root | fromYaml }}
{{- $selector := dict }}
{{- if eq (len $names) 1 }}{{ $_ := set $labels "app.kubernetes.io/name" (first $names) }}
{{- else if $names }}
{{- $_ := set $selector "matchExpressions" (list (dict "key" "app.kubernetes.io/name" "operator" "In" "values" $names)) }}
{{- else if $labels }}{{ $_ := set $labels "app.kubernetes.io/part-of" "slackwater" }}{{ end }}
{{- if $labels }}{{ $_ := set $selector "matchLabels" $labels }}{{ end }}
{{- toJson $selector }}
{{- end }}

{{- define "slackwater.agentsNamespace" -}}
{{- .Values.agent.namespace | default .Release.Namespace }}
{{- end }}

{{- /* The services that own kinds of documents, separated by spaces. A test compares them with the kinds. */}}
{{- define "slackwater.documentOwners" -}}
colocation descheduler ensurance migration prediction quota
{{- end }}

{{- /* Whether custom resources are the documents of these services; empty: they are not. */}}
{{- define "slackwater.documents" -}}
{{- if and .Values.kubernetes.enabled .Values.kubernetes.documents }}on{{ end }}
{{- end }}

{{- /* Whether a feature of the service kubernetes is on, or withdraws what it wrote: takes a list of the root and its name. */}}
{{- define "slackwater.feature" -}}
{{- $values := (index . 0).Values.kubernetes }}
{{- $value := get $values (index . 1) | toString }}
{{- if or $values.withdraw (not (has $value (list "false" "off" ""))) }}on{{ end }}
{{- end }}

{{- define "slackwater.natsUrl" -}}
{{- if .Values.nats.external.url }}{{ .Values.nats.external.url }}
{{- else }}{{ include "slackwater.brokerUrls" (list . "tls" 4222) }}{{ end }}
{{- end }}

{{- /* Addresses of all brokers: takes a list of the root, a scheme and a port. */}}
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

{{- /* The service that governs the brokers; several need one that names each. It is fixed for the life of a StatefulSet. */}}
{{- define "slackwater.brokersService" -}}
{{- include "slackwater.named" (list . (ternary "nats-brokers" "nats" (gt (int .Values.nats.replicas) 1))) }}
{{- end }}

{{- /* The names in the certificate of the brokers. */}}
{{- define "slackwater.natsHosts" -}}
{{- $host := include "slackwater.named" (list . "nats") }}
{{- printf "%s.%s.svc %s.%s %s" $host .Release.Namespace $host .Release.Namespace $host }}
{{- if gt (int .Values.nats.replicas) 1 }} {{ include "slackwater.brokerHosts" . }}{{ end }}
{{- end }}

{{- /* The secret with the authority of the brokers' certificate, where it is another's, as YAML. */}}
{{- define "slackwater.natsAuthority" -}}
{{- if .Values.nats.external.url }}{{ with .Values.nats.external.caSecret }}{{ if .name }}{{ toYaml . }}{{ end }}{{ end }}
{{- else if .Values.certManager.enabled }}
{{- $_ := required "certManager.caSecret.name: is needed, so that services trust the broker" .Values.certManager.caSecret.name }}
{{- toYaml .Values.certManager.caSecret }}
{{- end }}
{{- end }}

{{- /* A claim's size and class: takes `storage` of the values. */}}
{{- define "slackwater.claim" -}}
accessModes: [ReadWriteOnce]
resources: {requests: {storage: {{ .size }}}}
{{- with .className }}
storageClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- /* Rules of egress to PostgreSQL and NATS, the chart's or external ones. */}}
{{- define "slackwater.toPostgres" -}}
{{- if .Values.postgresql.external.host }}{{ include "slackwater.external" .Values.postgresql.external }}{{ else -}}
- to: [{podSelector: {{ include "slackwater.pods" (list . "postgres") }}}]
  ports: [{port: 5432, protocol: TCP}]
{{- end }}
{{- end }}

{{- define "slackwater.toNats" -}}
{{- if .Values.nats.external.url }}{{ include "slackwater.external" .Values.nats.external }}{{ else -}}
- to: [{podSelector: {{ include "slackwater.pods" (list . "nats") }}}]
  ports: [{port: 4222, protocol: TCP}]
{{- end }}
{{- end }}

{{- /* To a server outside of the chart: takes `external` of its values. */}}
{{- define "slackwater.external" -}}
- ports: [{port: {{ .port }}, protocol: TCP}]
{{- with .cidrs }}
  to:
{{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- /* To the API server, whose address a policy cannot name. */}}
{{- define "slackwater.toApiServer" -}}
- ports:
{{- range .Values.networkPolicy.apiServerPorts }}
    - {port: {{ . }}, protocol: TCP}
{{- end }}
{{- with .Values.networkPolicy.apiServerCidrs }}
  to:
{{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- /* To the cluster's DNS, that of kube-system and of each node. */}}
{{- define "slackwater.toDns" -}}
- to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
      podSelector: {matchLabels: {k8s-app: kube-dns}}
{{- range .Values.networkPolicy.dnsCidrs }}
    - ipBlock: {cidr: {{ . | quote }}}
{{- end }}
  ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end }}

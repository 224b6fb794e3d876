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

{{- define "slackwater.imageValues" -}}
{{- if eq .image "" }}{{ toYaml .root.Values.image }}{{ else }}{{ toYaml .own.image }}{{ end }}
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
{{- if .Values.nats.enabled }}tls://nats.{{ .Release.Namespace }}.svc:4222
{{- else }}{{ required "nats.external.url: is needed where nats.enabled is false" .Values.nats.external.url }}{{ end }}
{{- end }}

{{- define "slackwater.podLabels" -}}
{{- with merge (dict) .own.podLabels .root.Values.common.podLabels }}{{ toYaml . }}{{ end }}
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

{{- define "slackwater.extraEnv" -}}
{{- with concat .root.Values.common.extraEnv .own.extraEnv }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "slackwater.extraVolumes" -}}
{{- with concat .root.Values.common.extraVolumes .own.extraVolumes }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "slackwater.extraVolumeMounts" -}}
{{- with concat .root.Values.common.extraVolumeMounts .own.extraVolumeMounts }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* When the job migrate runs: before anything else, as a hook; but on a first install PostgreSQL of this chart is not
       there before, so that the job starts with everything else, and the services wait for it. (A post-install hook
       would wait for the services under `--wait`, and they for the hook.) Where PostgreSQL exists already, as of plain
       manifests that are taken over, it runs before. */}}
{{- define "slackwater.hook" -}}
{{- $exists := lookup "apps/v1" "StatefulSet" .Release.Namespace "postgres" }}
helm.sh/resource-policy: keep
{{- if or $exists (not .Values.postgresql.enabled) (not .Release.IsInstall) }}
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

{{- /* Parts of pods. Each takes the workload: a dict of `root` ($), `own` (its values), `name`, `image` (the values that
       name its image: "" of the services, agent, nats, postgresql), and what a part names. Values of a workload that
       are not there are those of `common`. */}}

{{- /* Labels and annotations; `annotations`: the chart's own. */}}
{{- define "slackwater.podMetadata" -}}
labels:
  app.kubernetes.io/name: {{ .name }}
  app.kubernetes.io/part-of: slackwater
  {{- $instance := include "slackwater.instance" .root | fromYaml }}
  {{- with $instance }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with merge (dict) (.own.podLabels | default dict) .root.Values.common.podLabels | include "slackwater.furtherLabels" }}
  {{- . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.own.podAnnotations | default dict) .root.Values.common.podAnnotations (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Where it runs; `spread`: over nodes, if possible and nothing else is said. */}}
{{- define "slackwater.placement" -}}
{{- $fields := dict }}{{ $own := .own }}{{ $common := .root.Values.common }}
{{- if .spread }}
{{- $selector := dict "matchLabels" (include "slackwater.selector" (list .root .name) | fromJson) }}
{{- $spread := dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" }}
{{- $_ := set $fields "topologySpreadConstraints" (list (set $spread "labelSelector" $selector)) }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}{{ $_ := set $fields "imagePullSecrets" . }}{{ end }}
{{- range list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" }}
{{- $value := get $own . | default (get $common .) }}
{{- if $value }}{{ $_ := set $fields . $value }}{{ end }}
{{- end }}
{{- with $fields }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* The beginning of a pod's spec: where it runs, and as which user (65532, or `user`). */}}
{{- define "slackwater.pod" -}}
enableServiceLinks: false
{{- with include "slackwater.placement" . }}
{{ . }}
{{- end }}
securityContext:
  {{- with .root.Values.common.podSecurityContext }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  {{- $user := .user | default 65532 }}
  runAsNonRoot: true
  runAsUser: {{ $user }}
  runAsGroup: {{ $user }}
  fsGroup: {{ $user }}
  seccompProfile: {type: RuntimeDefault}
  {{- end }}
{{- end }}

{{- define "slackwater.imageValues" -}}
{{- $image := include "slackwater.imageParts" .root.Values.image | fromYaml }}
{{- if eq .image "agent" }}{{ $image = mergeOverwrite $image (dict "repository" (printf "%s-agent" $image.repository) "digest" "") }}{{ end }}
{{- if .image }}
{{- $own := include "slackwater.imageParts" .own.image | fromYaml }}
{{- if ne .image "agent" }}{{ $image = dict "registry" $image.registry "pullPolicy" $image.pullPolicy }}{{ end }}
{{- range $key := list "registry" "repository" "tag" "digest" "pullPolicy" }}
{{- with get $own $key }}{{ $_ := set $image $key . }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml $image }}
{{- end }}

{{- /* The values of an image, with the tag and the digest that its repository names. */}}
{{- define "slackwater.imageParts" -}}
{{- $parts := splitn "@" 2 .repository }}{{ $tag := regexFind ":[^/:]*$" $parts._0 }}
{{- $named := dict "repository" ($parts._0 | trimSuffix $tag) }}
{{- with $tag }}{{ $_ := set $named "tag" (trimPrefix ":" .) }}{{ end }}
{{- with $parts._1 }}{{ $_ := set $named "digest" . }}{{ end }}
{{- merge $named . | toYaml }}
{{- end }}

{{- /* The image, and when it is pulled. A repository that begins with a host, as in `ghcr.io/team/name`, has no other
       registry. */}}
{{- define "slackwater.image" -}}
{{- $image := include "slackwater.imageValues" . | fromYaml }}
{{- $name := $image.repository }}
{{- if and $image.registry (not (regexMatch "^([^/]*[.:][^/]*|localhost)/" $name)) }}
{{- $name = printf "%s/%s" ($image.registry | trimSuffix "/") $name }}
{{- end -}}
image: {{ if $image.digest }}{{ printf "%s@%s" $name $image.digest | quote }}
{{- else }}{{ printf "%s:%s" $name ($image.tag | default .root.Chart.AppVersion) | quote }}{{ end }}
imagePullPolicy: {{ $image.pullPolicy | default "IfNotPresent" }}
{{- end }}

{{- /* The beginning of a container: name, image, resources, and variables: `env` (YAML), each replaced by one of the same
       name in the values, then the others of the values. A workload's own go before those of every pod. */}}
{{- define "slackwater.container" -}}
{{- $values := dict }}{{ $order := list }}{{ $env := list }}
{{- range concat .root.Values.common.extraEnv (.own.extraEnv | default list) }}
{{- $_ := set $values .name . }}
{{- $order = append $order .name }}
{{- end }}
{{- range .env | default "[]" | fromYamlArray }}
{{- $env = append $env (get $values .name | default .) }}
{{- $_ := unset $values .name }}
{{- end }}
{{- range $order | uniq }}
{{- with get $values . }}{{ $env = append $env . }}{{ end }}
{{- end -}}
name: {{ .name }}
{{ include "slackwater.image" . }}
env:
  {{- toYaml $env | nindent 2 }}
resources:
  {{- toYaml .own.resources | nindent 2 }}
{{- end }}

{{- define "slackwater.extraArgs" -}}
{{- with .own.extraArgs }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "slackwater.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* What every container of the services' image mounts, and the values' own. */}}
{{- define "slackwater.mounts" -}}
- {name: state, mountPath: /var/lib/slackwater}
- {name: tmp, mountPath: /tmp}
- {name: secrets, mountPath: /run/secrets/slackwater, readOnly: true}
{{- with include "slackwater.extraVolumeMounts" . }}
{{ . }}
{{- end }}
{{- end }}

{{- /* Its volumes: `state` and `tmp` (sizes; 16Mi), and the secret `secret` (plain name; its own). */}}
{{- define "slackwater.volumes" -}}
- name: state
  emptyDir: {sizeLimit: {{ .state | default "16Mi" }}}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: {{ .tmp | default "16Mi" }}}
- name: secrets
  {{- include "slackwater.secret" . | nindent 2 }}
{{- with include "slackwater.extraVolumes" . }}
{{ . }}
{{- end }}
{{- end }}

{{- define "slackwater.secret" -}}
secret:
  secretName: {{ .own.secretName | default (include "slackwater.named" (list .root (.secret | default .name))) | quote }}
  defaultMode: 0440
{{- end }}

{{- define "slackwater.extraVolumes" -}}
{{- with concat .root.Values.common.extraVolumes (.own.extraVolumes | default list) }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "slackwater.extraVolumeMounts" -}}
{{- with concat .root.Values.common.extraVolumeMounts (.own.extraVolumeMounts | default list) }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* Variables that name the brokers and the files of an account at them. */}}
{{- define "slackwater.natsVariables" -}}
- {name: SLACKWATER_NATS_URL, value: {{ include "slackwater.natsUrl" . | quote }}}
- {name: SLACKWATER_NATS_CREDENTIALS_FILE, value: /run/secrets/slackwater/nats.creds}
- {name: SLACKWATER_NATS_CA, value: /run/secrets/slackwater/ca.crt}
{{- end }}

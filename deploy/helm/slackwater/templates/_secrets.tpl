{{- /* What makes the secrets of a release: `slackwater cluster-secrets`, as a hook before anything else, and on a schedule. */}}

{{- /* The accounts and their rights: takes the root, the name of the account, and annotations of every object. */}}
{{- define "slackwater.secretsRights" -}}
{{- $root := .root }}
{{- $name := include "slackwater.named" (list .root .account) }}
{{- $annotations := .annotations }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  {{- include "slackwater.secretsMetadata" . | nindent 2 }}
automountServiceAccountToken: false
{{- if $root.Values.rbac.create }}
{{- range list $root.Release.Namespace (include "slackwater.agentsNamespace" $root) | uniq }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ . }}
  {{- include "slackwater.secretsMetadata" $ | nindent 2 }}
rules: # by name, also to create: server-side apply names what it creates
  - apiGroups: [""]
    resources: [secrets]
    resourceNames:
      {{- if eq . $root.Release.Namespace }}
      {{- range splitList " " (include "slackwater.secretReaders" $root) }}
      - {{ include "slackwater.named" (list $root .) }}
      {{- end }}
      {{- end }}
      {{- if eq . (include "slackwater.agentsNamespace" $root) }}
      - {{ include "slackwater.named" (list $root "agent-access") }}
      {{- end }}
    verbs: [get, create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ . }}
  {{- include "slackwater.secretsMetadata" $ | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "slackwater.secretsMetadata" -}}
labels:
  app.kubernetes.io/name: secrets
  app.kubernetes.io/part-of: slackwater
  {{- include "slackwater.labels" .root | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Each has a secret of its own. A test compares them with what the command writes. */}}
{{- define "slackwater.secretReaders" -}}
ca tokens postgres nats migrate backup restore ingestion prediction colocation ensurance quota descheduler migration console kubernetes access
{{- end }}

{{- /* The pod template of the command: takes the root and the name of the account. */}}
{{- define "slackwater.secretsPod" -}}
{{- $values := .root.Values }}
{{- $namespace := .root.Release.Namespace }}
{{- $pod := dict "root" .root "own" $values.secrets "image" "" }}
{{- $postgres := $values.postgresql.external }}
{{- $authority := include "slackwater.natsAuthority" .root | fromYaml }}
metadata:
  labels:
    app.kubernetes.io/name: secrets
    app.kubernetes.io/part-of: slackwater
    {{- with include "slackwater.podLabels" $pod }}
    {{- . | nindent 4 }}
    {{- end }}
  {{- with $values.common.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: OnFailure
  serviceAccountName: {{ include "slackwater.named" (list .root .account) }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  {{- with include "slackwater.placement" $pod }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $values.common.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- else }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  {{- end }}
  containers:
    - name: secrets
      image: {{ include "slackwater.image" $pod | quote }}
      imagePullPolicy: {{ include "slackwater.pullPolicy" $pod }}
      args:
        - cluster-secrets
        - --namespace={{ $namespace }}
        - --prefix={{ include "slackwater.prefix" .root }}
        - --instance={{ .root.Release.Name }}
        {{- if $values.agent.enabled }}
        - --agents-namespace={{ include "slackwater.agentsNamespace" .root }}
        {{- end }}
        {{- if $postgres.host }}
        - --postgres-address=postgresql://{{ $postgres.user | urlquery }}@{{ $postgres.host }}:{{ $postgres.port }}/{{ $postgres.database | urlquery }}?sslmode={{ $postgres.sslMode }}
        - --postgres-password-file=/run/secrets/postgresql/password
        {{- if $postgres.caSecret.name }}
        - --postgres-ca=/run/secrets/postgresql-ca/ca.crt
        {{- end }}
        {{- else }}
        - --postgres-host={{ include "slackwater.named" (list .root "postgres") }}.{{ $namespace }}.svc
        {{- end }}
        {{- range splitList " " (include "slackwater.natsHosts" .root) }}
        - --nats-host={{ . }}
        {{- end }}
        {{- if $authority }}
        - --nats-ca=/run/secrets/nats-ca/ca.crt
        {{- end }}
      env:
        {{- include "slackwater.env" (dict "root" .root "own" $values.secrets "given" "[]") | nindent 8 }}
      resources:
        requests: {cpu: 50m, memory: 96Mi}
        limits: {cpu: "1", memory: 256Mi}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: state, mountPath: /var/lib/slackwater}
        - {name: tmp, mountPath: /tmp}
        {{- if $postgres.host }}
        - {name: postgresql, mountPath: /run/secrets/postgresql, readOnly: true}
        {{- if $postgres.caSecret.name }}
        - {name: postgresql-ca, mountPath: /run/secrets/postgresql-ca, readOnly: true}
        {{- end }}
        {{- end }}
        {{- if $authority }}
        - {name: nats-ca, mountPath: /run/secrets/nats-ca, readOnly: true}
        {{- end }}
        {{- with include "slackwater.extraVolumeMounts" $pod }}
        {{- . | nindent 8 }}
        {{- end }}
  volumes:
    - name: state
      emptyDir: {sizeLimit: 16Mi}
    - name: tmp
      emptyDir: {medium: Memory, sizeLimit: 32Mi}
    {{- if $postgres.host }}
    - name: postgresql
      secret:
        secretName: {{ $postgres.passwordSecret.name }}
        defaultMode: 288
        items: [{key: {{ $postgres.passwordSecret.key | quote }}, path: password}]
    {{- if $postgres.caSecret.name }}
    - name: postgresql-ca
      secret:
        secretName: {{ $postgres.caSecret.name }}
        items: [{key: {{ $postgres.caSecret.key | quote }}, path: ca.crt}]
    {{- end }}
    {{- end }}
    {{- if $authority }}
    - name: nats-ca
      secret:
        secretName: {{ $authority.name }}
        items: [{key: {{ $authority.key | quote }}, path: ca.crt}]
    {{- end }}
    {{- with include "slackwater.extraVolumes" $pod }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end }}

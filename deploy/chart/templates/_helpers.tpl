{{- /* The names and labels of a release, by Helm's conventions. */ -}}
{{- define "haulout.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 53 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "haulout.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "haulout.fullname" .) }}
{{- end }}

{{- /* `haulout status`, support archives and drains find the operator by app.kubernetes.io/name, so it never changes. */ -}}
{{- define "haulout.selectorLabels" -}}
app.kubernetes.io/name: haulout
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "haulout.consoleSelectorLabels" -}}
app.kubernetes.io/name: haulout-console
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "haulout.commonLabels" -}}
app.kubernetes.io/part-of: haulout
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "haulout.labels" -}}
{{ include "haulout.selectorLabels" . }}
{{ include "haulout.commonLabels" . }}
{{- end }}

{{- define "haulout.consoleLabels" -}}
{{ include "haulout.consoleSelectorLabels" . }}
{{ include "haulout.commonLabels" . }}
{{- end }}

{{- define "haulout.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{- /* The name of the object with a surface's configuration file. Called with a list of the top level and the surface. */ -}}
{{- define "haulout.configMapName" -}}
{{- printf "%s-%s" (include "haulout.fullname" (index . 0)) (index . 1) }}
{{- end }}

{{- define "haulout.hasDisruptionBudget" -}}
{{- if and .Values.podDisruptionBudget.enabled (gt (int .Values.replicas) 1) }}true{{ end }}
{{- end }}

{{- /* Replicas prefer different nodes, because the operator drains the nodes that it runs on. Called with their labels. */ -}}
{{- define "haulout.antiAffinity" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels: {{- . | nindent 10 }}
{{- end }}

{{- define "haulout.spread" -}}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- . | nindent 6 }}
{{- end }}

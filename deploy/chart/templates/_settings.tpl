{{- /* Made by python -m tools.chart. */ -}}
{{- define "haulout.settings" -}}
{{- $made := dict "log" (dict "format" "json") "surfaces" dict }}
{{- $listen := dict }}
{{- if ne (int .Values.ports.http) 8080 }}
{{- $_ := set $listen "http" (printf ":%d" (int .Values.ports.http)) }}
{{- end }}
{{- if ne (int .Values.ports.probes) 8081 }}
{{- $_ := set $listen "health" (printf ":%d" (int .Values.ports.probes)) }}
{{- end }}
{{- if ne (int .Values.ports.webhooks) 9443 }}
{{- $_ := set $listen "webhooks" (printf ":%d" (int .Values.ports.webhooks)) }}
{{- end }}
{{- if not .Values.webhooks.enabled }}
{{- $_ := set $listen "webhooks" "0" }}
{{- end }}
{{- if $listen }}
{{- $_ := set $made "listen" $listen }}
{{- end }}
{{- $webhooks := dict }}
{{- $service := printf "%s-webhook" (include "haulout.fullname" .) }}
{{- if ne $service "haulout-webhook" }}
{{- $_ := set $webhooks "service" $service }}
{{- end }}
{{- if ne .Values.webhooks.certificates "self" }}
{{- $_ := set $webhooks "certificates" (ternary "cert-manager" "/etc/haulout-webhooks" (eq .Values.webhooks.certificates "cert-manager")) }}
{{- end }}
{{- if $webhooks }}
{{- $_ := set $made "webhooks" $webhooks }}
{{- end }}
{{- if ne .Values.leaderLease "haulout" }}
{{- $_ := set $made "leader" (merge (dict "lease" .Values.leaderLease) (default dict (get $made "leader"))) }}
{{- end }}
{{- if ne .Values.webhookSecret "haulout-webhook-cert" }}
{{- $_ := set $made "webhooks" (merge (dict "secret" .Values.webhookSecret) (default dict (get $made "webhooks"))) }}
{{- end }}
{{- if .Values.surfaces.profiles }}
{{- $block := dict }}
{{- $_ := set $block "config" "/etc/haulout/profiles/maintenance.yaml" }}
{{- $_ := set $made.surfaces "profiles" $block }}
{{- end }}
{{- if .Values.surfaces.nodemaintenance }}
{{- $block := dict }}
{{- if .Values.nodeConditions }}
{{- $_ := set $block "nodeConditions" true }}
{{- end }}
{{- if .Values.evictionRequests }}
{{- $_ := set $block "evictionBackend" "evictionrequest" }}
{{- end }}
{{- if ne .Values.leaseNamespace "medik8s-leases" }}
{{- $_ := set $block "leaseNamespace" .Values.leaseNamespace }}
{{- end }}
{{- $_ := set $made.surfaces "nodemaintenance" $block }}
{{- end }}
{{- if .Values.surfaces.clusterapi }}
{{- $block := dict }}
{{- if .Values.metal3 }}
{{- $_ := set $block "enableMetal3Maintenance" true }}
{{- end }}
{{- $_ := set $made.surfaces "clusterapi" $block }}
{{- end }}
{{- if .Values.surfaces.notify }}
{{- $block := dict }}
{{- $_ := set $block "config" "/etc/haulout/notify/notifyMaintenanceConfig.yaml" }}
{{- $_ := set $made.surfaces "notify" $block }}
{{- end }}
{{- if .Values.surfaces.packages }}
{{- $block := dict }}
{{- if .Values.failureLogs }}
{{- $_ := set $block "keepFailureLogs" true }}
{{- end }}
{{- if ne .Values.packagesNamespace "skyhook" }}
{{- $_ := set $block "namespace" .Values.packagesNamespace }}
{{- end }}
{{- $_ := set $made.surfaces "packages" $block }}
{{- end }}
{{- range .Values.foreignSurfaces }}
{{- $_ := set $made.surfaces . dict }}
{{- end }}
{{- toYaml (mergeOverwrite $made (deepCopy (default dict .Values.settings))) }}
{{- end }}
{{- define "haulout.surfacesWithFiles" -}}
["profiles", "notify"]
{{- end }}
{{- define "haulout.configFiles" -}}
{"profiles": "maintenance.yaml", "notify": "notifyMaintenanceConfig.yaml"}
{{- end }}

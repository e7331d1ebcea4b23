{{- /* Refuses values that contradict each other. What is wrong in one value alone, values.schema.json refuses. */ -}}
{{- define "haulout.checks" -}}
{{- include "haulout.surfaceChecks" . }}
{{- $settings := default dict .Values.settings }}
{{- $replicas := int .Values.replicas }}
{{- $budget := .Values.podDisruptionBudget }}
{{- $has := not (kindIs "invalid" $budget.minAvailable) }}
{{- $hasMost := not (kindIs "invalid" $budget.maxUnavailable) }}
{{- if and $has $hasMost }}
{{- fail "podDisruptionBudget.minAvailable and podDisruptionBudget.maxUnavailable exclude each other: leave one of them out" }}
{{- end }}
{{- if include "haulout.hasDisruptionBudget" . }}
{{- if $has }}
{{- /* As the API server does, a percentage is rounded up. */ -}}
{{- $stay := $budget.minAvailable }}
{{- if kindIs "string" $stay }}
{{- $stay = div (add (mul (trimSuffix "%" $stay | int) $replicas) 99) 100 }}
{{- end }}
{{- if ge (int $stay) $replicas }}
{{- fail (printf "podDisruptionBudget.minAvailable (%v, that is %d pods) must be below replicas (%d): otherwise no node with a pod of haulout can be drained" $budget.minAvailable (int $stay) $replicas) }}
{{- end }}
{{- end }}
{{- if has (toString $budget.maxUnavailable) (list "0" "0%") }}
{{- fail "podDisruptionBudget.maxUnavailable allows no eviction at all: no node with a pod of haulout could be drained" }}
{{- end }}
{{- end }}
{{- if and (gt $replicas 1) (eq (toString (dig "leader" "elect" "true" $settings)) "false") }}
{{- fail (printf "settings.leader.elect: false with %d replicas: all of them would act at once. Set replicas: 1, or let them elect a leader" $replicas) }}
{{- end }}
{{- if hasKey $settings "listen" }}
{{- fail "settings.listen: set ports and webhooks.enabled instead, because Services, probes and NetworkPolicies name the ports, too" }}
{{- end }}
{{- range list "service" "certificates" }}
{{- if dig "webhooks" . "" $settings }}
{{- fail (printf "settings.webhooks.%s: set webhooks.certificates, fullnameOverride or webhookSecret instead, because the registration of the webhooks follows from them" .) }}
{{- end }}
{{- end }}
{{- if and (not .Values.webhooks.enabled) (ne .Values.webhooks.certificates "self") }}
{{- fail (printf "webhooks.certificates: %s has no effect without webhooks: set webhooks.enabled: true, or leave it out" .Values.webhooks.certificates) }}
{{- end }}
{{- if and (eq .Values.webhooks.certificates "provided") (not .Values.webhooks.caBundle) }}
{{- fail "webhooks.certificates: provided needs webhooks.caBundle: without it, API servers trust no certificate, and every write that a webhook reviews is refused" }}
{{- end }}
{{- if and .Values.webhooks.caBundle (ne .Values.webhooks.certificates "provided") }}
{{- fail "webhooks.caBundle is for webhooks.certificates: provided alone: the operator or cert-manager would overwrite it" }}
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create: false needs serviceAccount.name: the operator's rights must not go to the namespace's default account" }}
{{- end }}
{{- $ports := list (int .Values.ports.http) (int .Values.ports.probes) (int .Values.ports.webhooks) }}
{{- if lt (len (uniq $ports)) 3 }}
{{- fail "ports.http, ports.probes and ports.webhooks must differ" }}
{{- end }}
{{- range $name, $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels "console.podLabels" .Values.console.podLabels }}
{{- range list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/part-of" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{- if hasKey (default dict $labels) . }}
{{- fail (printf "%s: the label %s is the chart's own" $name .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.console.enabled }}
{{- if not (or .Values.console.tlsSecret .Values.console.extraContainers) }}
{{- fail "console.enabled needs console.tlsSecret, or a proxy that ends TLS in console.extraContainers: tokens do not travel in clear" }}
{{- end }}
{{- end }}
{{- end }}

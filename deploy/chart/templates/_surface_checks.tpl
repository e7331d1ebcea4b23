{{- /* Made by python -m tools.chart. */ -}}
{{- define "haulout.surfaceChecks" -}}
{{- $settings := default dict .Values.settings }}
{{- if and (not .Values.surfaces.profiles) (hasKey (dig "surfaces" dict $settings) "profiles") }}
{{- fail "settings.surfaces.profiles is set, but the surface is off: set surfaces.profiles: true as well" }}
{{- end }}
{{- if and (not .Values.surfaces.profiles) .Values.hypervisors }}
{{- fail "hypervisors has no effect without its surface: set surfaces.profiles: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.surfaces.profiles) .Values.stagger }}
{{- fail "stagger has no effect without its surface: set surfaces.profiles: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.surfaces.profiles) .Values.slackThread }}
{{- fail "slackThread has no effect without its surface: set surfaces.profiles: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.surfaces.profiles) .Values.cloudSecret }}
{{- fail "cloudSecret has no effect without its surface: set surfaces.profiles: true, or leave it out" }}
{{- end }}
{{- if dig "surfaces" "profiles" "config" "" $settings }}
{{- fail "settings.surfaces.profiles.config: leave it out, because the file is mounted where the operator looks for it; its content goes into profiles.config or profiles.configSecret" }}
{{- end }}
{{- if and .Values.profiles.config .Values.profiles.configSecret }}
{{- fail "profiles.config and profiles.configSecret exclude each other: leave one of them out" }}
{{- end }}
{{- if and (not .Values.surfaces.profiles) (or .Values.profiles.config .Values.profiles.configSecret) }}
{{- fail "profiles has a configuration file, but the surface is off: set surfaces.profiles: true as well" }}
{{- end }}
{{- if and (not .Values.surfaces.nodemaintenance) (hasKey (dig "surfaces" dict $settings) "nodemaintenance") }}
{{- fail "settings.surfaces.nodemaintenance is set, but the surface is off: set surfaces.nodemaintenance: true as well" }}
{{- end }}
{{- if and (not .Values.surfaces.nodemaintenance) .Values.nodeConditions }}
{{- fail "nodeConditions has no effect without its surface: set surfaces.nodemaintenance: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.nodeConditions) (eq (toString (dig "surfaces" "nodemaintenance" "nodeConditions" "" $settings)) (toString true)) }}
{{- fail "settings.surfaces.nodemaintenance.nodeConditions needs rights: set nodeConditions: true instead, which grants them and writes the setting" }}
{{- end }}
{{- if and (not .Values.surfaces.nodemaintenance) .Values.evictionRequests }}
{{- fail "evictionRequests has no effect without its surface: set surfaces.nodemaintenance: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.evictionRequests) (eq (toString (dig "surfaces" "nodemaintenance" "evictionBackend" "" $settings)) (toString "evictionrequest")) }}
{{- fail "settings.surfaces.nodemaintenance.evictionBackend needs rights: set evictionRequests: true instead, which grants them and writes the setting" }}
{{- end }}
{{- if and (not .Values.surfaces.clusterapi) (hasKey (dig "surfaces" dict $settings) "clusterapi") }}
{{- fail "settings.surfaces.clusterapi is set, but the surface is off: set surfaces.clusterapi: true as well" }}
{{- end }}
{{- if and (not .Values.surfaces.clusterapi) .Values.metal3 }}
{{- fail "metal3 has no effect without its surface: set surfaces.clusterapi: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.metal3) (eq (toString (dig "surfaces" "clusterapi" "enableMetal3Maintenance" "" $settings)) (toString true)) }}
{{- fail "settings.surfaces.clusterapi.enableMetal3Maintenance needs rights: set metal3: true instead, which grants them and writes the setting" }}
{{- end }}
{{- if and (not .Values.surfaces.clusterapi) .Values.kubeconfigs }}
{{- fail "kubeconfigs has no effect without its surface: set surfaces.clusterapi: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.surfaces.notify) (hasKey (dig "surfaces" dict $settings) "notify") }}
{{- fail "settings.surfaces.notify is set, but the surface is off: set surfaces.notify: true as well" }}
{{- end }}
{{- if and (not .Values.surfaces.notify) .Values.notifyScheduler }}
{{- fail "notifyScheduler has no effect without its surface: set surfaces.notify: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.surfaces.notify) .Values.notifyDrainer }}
{{- fail "notifyDrainer has no effect without its surface: set surfaces.notify: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.surfaces.notify) .Values.notifyJobs }}
{{- fail "notifyJobs has no effect without its surface: set surfaces.notify: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.surfaces.notify) .Values.notifyConfigmaps }}
{{- fail "notifyConfigmaps has no effect without its surface: set surfaces.notify: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.surfaces.notify) .Values.notifySecret }}
{{- fail "notifySecret has no effect without its surface: set surfaces.notify: true, or leave it out" }}
{{- end }}
{{- if dig "surfaces" "notify" "config" "" $settings }}
{{- fail "settings.surfaces.notify.config: leave it out, because the file is mounted where the operator looks for it; its content goes into notify.config or notify.configSecret" }}
{{- end }}
{{- if and .Values.notify.config .Values.notify.configSecret }}
{{- fail "notify.config and notify.configSecret exclude each other: leave one of them out" }}
{{- end }}
{{- if and (not .Values.surfaces.notify) (or .Values.notify.config .Values.notify.configSecret) }}
{{- fail "notify has a configuration file, but the surface is off: set surfaces.notify: true as well" }}
{{- end }}
{{- if and (not .Values.surfaces.packages) (hasKey (dig "surfaces" dict $settings) "packages") }}
{{- fail "settings.surfaces.packages is set, but the surface is off: set surfaces.packages: true as well" }}
{{- end }}
{{- if and (not .Values.surfaces.packages) .Values.failureLogs }}
{{- fail "failureLogs has no effect without its surface: set surfaces.packages: true, or leave it out" }}
{{- end }}
{{- if and (not .Values.failureLogs) (eq (toString (dig "surfaces" "packages" "keepFailureLogs" "" $settings)) (toString true)) }}
{{- fail "settings.surfaces.packages.keepFailureLogs needs rights: set failureLogs: true instead, which grants them and writes the setting" }}
{{- end }}
{{- range $name, $_ := dig "surfaces" dict $settings }}
{{- if not (or (has $name (list "profiles" "nodemaintenance" "clusterapi" "notify" "packages")) (has $name $.Values.foreignSurfaces)) }}
{{- fail (printf "settings.surfaces.%s: there is no such surface (there are profiles, nodemaintenance, clusterapi, notify, packages); name a surface of another package in foreignSurfaces" $name) }}
{{- end }}
{{- end }}
{{- if dig "leader" "lease" "" $settings }}
{{- fail "settings.leader.lease: set leaderLease instead, because roles need the name, too" }}
{{- end }}
{{- if dig "webhooks" "secret" "" $settings }}
{{- fail "settings.webhooks.secret: set webhookSecret instead, because roles need the name, too" }}
{{- end }}
{{- if dig "surfaces" "nodemaintenance" "leaseNamespace" "" $settings }}
{{- fail "settings.surfaces.nodemaintenance.leaseNamespace: set leaseNamespace instead, because roles need the name, too" }}
{{- end }}
{{- if dig "surfaces" "packages" "namespace" "" $settings }}
{{- fail "settings.surfaces.packages.namespace: set packagesNamespace instead, because roles need the name, too" }}
{{- end }}
{{- if eq .Values.leaseNamespace .Values.packagesNamespace }}
{{- fail "leaseNamespace and packagesNamespace must differ" }}
{{- end }}
{{- if and .Values.limitRange (not .Values.surfaces.packages) }}
{{- fail "limitRange is for the namespace of packages: set surfaces.packages: true, or leave it out" }}
{{- end }}
{{- if not (or .Values.surfaces.profiles .Values.surfaces.nodemaintenance .Values.surfaces.clusterapi .Values.surfaces.notify .Values.surfaces.packages .Values.foreignSurfaces) }}
{{- fail "no surface is on: set one of surfaces.profiles, surfaces.nodemaintenance, surfaces.clusterapi, surfaces.notify, surfaces.packages to true" }}
{{- end }}
{{- end }}

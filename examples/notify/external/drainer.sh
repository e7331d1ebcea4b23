#!/bin/sh
# A drainer of your own: `kubectl drain` for every started maintenance of namespace $1, then the annotation that reports it.
# The first annotation, "false", takes the step: the in-box drainer leaves it alone from then on.
set -eu
ns=$1
key=maintenance/readyForMaintenance

list() {
  kubectl get notifymaintenances -n "$ns" -o go-template='{{range .items}}{{.metadata.name}} {{.spec.nodeObject}} {{with .status}}{{.maintenanceStatus}}{{end}}{{"\n"}}{{end}}'
}

while :; do
  all=$(list)
  [ -n "$all" ] || exit 0
  echo "$all" | awk '$3 == "MaintenanceStarted" || $3 == "SLAExpired" {print $1, $2}' | while read -r name node; do
    kubectl annotate notifymaintenance "$name" -n "$ns" "$key=false" --overwrite
    kubectl drain "$node" --ignore-daemonsets --delete-emptydir-data --force --timeout="${DRAIN_TIMEOUT:-1h}"
    kubectl annotate notifymaintenance "$name" -n "$ns" "$key=true" --overwrite
  done
  sleep "${PAUSE:-1}"
done

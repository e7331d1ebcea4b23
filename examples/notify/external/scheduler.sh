#!/bin/sh
# A scheduler of your own: starts the maintenances of namespace $1 one node at a time, and gives the nodes back.
# Label and cordon together start a maintenance. It has ended when it is deleted and "terminated"; the uncordon completes it.
set -eu
ns=$1

list() {
  kubectl get notifymaintenances -n "$ns" -o go-template='{{range .items}}{{.metadata.name}} {{.spec.nodeObject}} {{.spec.maintenanceID}} {{with .status}}{{.maintenanceStatus}}{{else}}new{{end}} {{with .metadata.annotations}}{{if eq (printf "%v" (index . "maintenance.ngn2.nvidia.com/terminated")) ""}}over{{end}}{{end}}{{"\n"}}{{end}}'
}

while :; do
  all=$(list)
  [ -n "$all" ] || exit 0
  echo "$all" | awk '$5 == "over" {print $2}' | while read -r node; do kubectl uncordon "$node"; done
  if ! echo "$all" | awk '$4 !~ /^(new|MaintenanceScheduled)$/ {busy = 1} END {exit !busy}'; then
    echo "$all" | awk '$4 == "MaintenanceScheduled" {print $2, $3; exit}' | while read -r node id; do
      kubectl patch node "$node" --type merge \
        -p '{"metadata":{"labels":{"maintenance/'"$id"'":""}},"spec":{"unschedulable":true}}'
    done
  fi
  sleep "${PAUSE:-1}"
done

#!/bin/sh
# A validator of your own: asks whether the nodes of validating maintenances of namespace $1 are Ready, and reports it.
# The first annotation, "inprogress", takes the step: no other validator touches it from then on.
set -eu
ns=$1
key=maintenance/validationClient

list() {
  kubectl get notifymaintenances -n "$ns" -o go-template='{{range .items}}{{.metadata.name}} {{.spec.nodeObject}} {{with .status}}{{.maintenanceStatus}}{{end}} {{with .metadata.annotations}}{{with index . "maintenance/validationClient"}}{{.}}{{end}}{{end}}{{"\n"}}{{end}}'
}

while :; do
  all=$(list)
  [ -n "$all" ] || exit 0
  echo "$all" | awk '$3 == "Validating" && ($4 == "" || $4 == "inprogress") {print $1, $2}' | while read -r name node; do
    kubectl annotate notifymaintenance "$name" -n "$ns" "$key=inprogress" --overwrite
    result=failed
    if kubectl wait node "$node" --for=condition=Ready --timeout="${READY_TIMEOUT:-15m}"; then result=validated; fi
    kubectl annotate notifymaintenance "$name" -n "$ns" "$key=$result" --overwrite
  done
  sleep "${PAUSE:-1}"
done

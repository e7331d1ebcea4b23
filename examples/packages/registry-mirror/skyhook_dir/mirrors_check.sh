#!/bin/sh
set -eu
. "$STEP_ROOT/shared"
mirrors | while read -r registry others; do
    # shellcheck disable=SC2086
    hosts "$registry" $others | cmp - "$root$certs/$registry/hosts.toml"
done

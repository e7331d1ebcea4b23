#!/bin/sh
set -eu
. "$STEP_ROOT/shared"
! grep -qxF "$mark" "$root$certs"/*/hosts.toml 2> /dev/null

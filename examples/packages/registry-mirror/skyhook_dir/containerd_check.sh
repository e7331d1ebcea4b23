#!/bin/sh
set -eu
. "$STEP_ROOT/shared"
test "$(config_path)" = "$certs"

#!/bin/sh
set -eu
. "$STEP_ROOT/shared"
test ! -e "$memory"
delivered | while read -r path; do test ! -e "$root$path"; done

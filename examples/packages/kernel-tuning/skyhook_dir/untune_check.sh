#!/bin/sh
set -eu
. "$STEP_ROOT/shared"
test ! -e "$sysctl_file"
test ! -e "$grub_file"

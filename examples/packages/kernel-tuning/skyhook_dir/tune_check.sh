#!/bin/sh
set -eu
. "$STEP_ROOT/shared"
settings | cmp - "$sysctl_file"
if [ -n "$(words)" ]; then
    grep -qF " $(words)\"" "$grub_file"
else
    test ! -e "$grub_file"
fi

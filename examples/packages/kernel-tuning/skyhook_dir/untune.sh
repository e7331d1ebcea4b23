#!/bin/sh
# Remove the settings. The kernel forgets them with the next boot.
set -eu
. "$STEP_ROOT/shared"
rm -f "$sysctl_file"
if [ -e "$grub_file" ]; then
    : > "$grub_file"
    update-grub
    rm "$grub_file"
fi

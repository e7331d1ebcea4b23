#!/bin/sh
# Write the settings that hold from the next boot on. May be run any number of times.
set -eu
. "$STEP_ROOT/shared"

wrong=$(settings | grep -Ev '^[A-Za-z0-9][A-Za-z0-9_./-]*=.+$' || true)
[ -z "$wrong" ] || fail "not of the form key=value: $wrong"
# These words become part of a file that a shell reads.
wrong=$(words | tr ' ' '\n' | grep -Ev '^[A-Za-z0-9_.,:=/-]*$' || true)
[ -z "$wrong" ] || fail "not an argument for the kernel: $wrong"

settings | put "$sysctl_file"

if [ -n "$(words)" ]; then
    command -v update-grub > /dev/null || fail "this host has no update-grub: leave the key cmdline empty"
    printf 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX %s"\n' "$(words)" | put "$grub_file"
    update-grub
elif [ -e "$grub_file" ]; then
    # The file goes last: until then a step that was killed can see that there is something left to do.
    : > "$grub_file"
    update-grub
    rm "$grub_file"
fi

#!/bin/sh
set -eu
. "$STEP_ROOT/shared"
permissions | while read -r mode path; do
    found=$(stat -c %a "$root$path")
    if [ "$found" != "$mode" ]; then
        echo "$path has the mode $found, not $mode"
        exit 1
    fi
done
delivered | cmp - "$memory/files"
delivered | while read -r path; do cmp "$SKYHOOK_DIR/root_dir$path" "$root$path"; done

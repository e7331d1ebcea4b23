#!/bin/sh
# Take everything back: the agent leaves files of root_dir on the host, so that the package has to remove them.
set -eu
. "$STEP_ROOT/shared"
[ -d "$memory" ] || exit 0
while read -r mode path; do
    if [ -e "$root$path" ]; then chmod "$mode" "$root$path"; fi
done < "$memory/permissions"
while read -r path; do
    if [ -e "$root$path" ] && ! cmp -s "$SKYHOOK_DIR/root_dir$path" "$root$path"; then
        echo "$path was changed on this host; it is kept as $path.changed"
        mv "$root$path" "$root$path.changed"
    fi
    rm -f "$root$path"
done < "$memory/files"
rm -r "$memory"

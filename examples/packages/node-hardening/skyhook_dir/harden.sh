#!/bin/sh
# Check what root_dir has brought, close files, and remember what to take back. May be run any number of times.
set -eu
. "$STEP_ROOT/shared"

# A mistake here would lock everybody out with the next restart of sshd.
if [ -d "$root/run/systemd/system" ] && command -v sshd > /dev/null; then
    sshd -t
fi

mkdir -p "$memory"
# What an earlier version has brought and this one does not.
if [ -e "$memory/files" ]; then
    delivered > "$memory/files.new"
    grep -vxF -f "$memory/files.new" "$memory/files" | while read -r path; do rm -f "$root$path"; done
    rm "$memory/files.new"
fi
delivered > "$memory/files"

touch "$memory/permissions"
permissions | while read -r mode path; do
    # Only the first mode is the host's own.
    if ! grep -q " $path\$" "$memory/permissions"; then
        echo "$(stat -c %a "$root$path") $path" >> "$memory/permissions"
    fi
    chmod "$mode" "$root$path"
done

if [ -d "$root/run/systemd/system" ]; then
    sysctl -q -p "$root/etc/sysctl.d/60-node-hardening.conf"
fi

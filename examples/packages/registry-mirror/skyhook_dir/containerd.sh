#!/bin/sh
# Have containerd look for mirrors in a directory. It notices when it is restarted.
set -eu
. "$STEP_ROOT/shared"
case $(config_path) in
    "$certs") exit 0 ;;
    ?*) fail "containerd looks for mirrors in $(config_path), not in $certs" ;;
esac
if [ -e "$config" ] && grep -q '^[[:space:]]*\[.*\.registry\.mirrors' "$config"; then
    fail "$config has registry.mirrors, with which containerd refuses config_path"
fi

mkdir -p "${config%/*}"
{
    if [ -e "$config" ]; then cat "$config"; else echo "version = 2"; fi
} | awk -v table="$(table)" -v line="  config_path = \"$certs\"" '
    /^[[:space:]]*\[/ { at = index($0, table) && $0 ~ /\.registry\]/ }
    at && /^[[:space:]]*config_path[[:space:]]*=/ { next }
    { print }
    at && /^[[:space:]]*\[/ { print line; done = 1 }
    END { if (!done) printf "\n[plugins.\"%s\".registry]\n%s\n", table, line }
' > "$config.new"
# A configuration that containerd cannot read would take the node down at its next restart.
if command -v containerd > /dev/null; then
    containerd --config "$config.new" config dump > /dev/null || fail "containerd refuses the new configuration: $config.new"
fi
[ ! -e "$config" ] || cp -p "$config" "$config.before-registry-mirror"
mv "$config.new" "$config"

#!/bin/sh
# Name the mirrors of each registry, and no longer those of registries that are not in the configMap any more.
set -eu
. "$STEP_ROOT/shared"
wrong=$(mirrors | grep -Ev '^[A-Za-z0-9._:-]+([[:space:]]+https?://[A-Za-z0-9._:/-]+)+[[:space:]]*$' || true)
[ -z "$wrong" ] || fail "not a registry and the addresses of its mirrors: $wrong"

if [ -e "$SKYHOOK_DIR/configmaps/ca.crt" ]; then
    put "$root$certs/registry-mirror.crt" < "$SKYHOOK_DIR/configmaps/ca.crt"
else
    rm -f "$root$certs/registry-mirror.crt"
fi
mirrors | while read -r registry others; do
    file=$root$certs/$registry/hosts.toml
    # Somebody else's file comes back when the package is uninstalled.
    if [ -e "$file" ] && ! grep -qxF "$mark" "$file"; then
        cp -p "$file" "$file.before-registry-mirror"
    fi
    # shellcheck disable=SC2086  # one word for each address
    hosts "$registry" $others | put "$file"
done
for file in "$root$certs"/*/hosts.toml; do
    registry=${file%/hosts.toml}
    registry=${registry##*/}
    if [ -e "$file" ] && grep -qxF "$mark" "$file" && ! mirrors | awk '{ print $1 }' | grep -qxF "$registry"; then
        "$STEP_ROOT/release" "$file"
    fi
done

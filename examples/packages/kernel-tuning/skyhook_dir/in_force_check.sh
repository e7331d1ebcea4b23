#!/bin/sh
# After the reboot: whether the kernel runs with what was written.
set -eu
. "$STEP_ROOT/shared"
if [ ! -d "$root/run/systemd/system" ]; then
    echo "this root was not booted: what its kernel runs with says nothing"
    exit 0
fi
settings | {
    wrong=0
    while IFS='=' read -r key value; do
        case $key in */*) path=$key ;; *) path=$(echo "$key" | tr . /) ;; esac
        wanted=$(echo "$value" | tr -s '[:space:]' ' ' | sed 's/ $//')
        found="unknown to this kernel"
        if [ -e "$root/proc/sys/$path" ]; then
            found=$(tr -s '[:space:]' ' ' < "$root/proc/sys/$path" | sed 's/ $//')
        fi
        if [ "$found" != "$wanted" ]; then
            echo "$key is $found, not $wanted"
            wrong=1
        fi
    done
    exit $wrong
}
for word in $(words); do
    tr -s '[:space:]' '\n' < "$root/proc/cmdline" | grep -qxF -e "$word" || fail "the kernel was started without $word"
done

#!/bin/sh
# Stand in for the agent: sleep for SLEEP_LEN seconds, end with EXIT_CODE.
trap 'kill $! 2> /dev/null; sleep 3; exit 0' TERM
sleep "${SLEEP_LEN:-$((5 + $(od -An -N1 -tu1 /dev/urandom) % 5))}" &
# Unlike a sleep in the foreground, this ends when a signal comes.
wait $!
exit "${EXIT_CODE:-0}"

"""The outside world: mail, Slack, OpenStack, vCenter, Prometheus."""

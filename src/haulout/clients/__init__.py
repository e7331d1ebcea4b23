"""Clients for other systems: mail, web servers, Slack, SNS, OpenStack, vCenter and Prometheus."""

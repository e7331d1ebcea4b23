"""Tools for authors of packages, and dry runs. They use the package agent, and are not on the hosts that it runs on."""

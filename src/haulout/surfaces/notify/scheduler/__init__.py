"""The scheduler of notify: it chooses which nodes go out of service next, so that little work is lost."""

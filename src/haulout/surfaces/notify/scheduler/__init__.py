"""The scheduler of notify: which nodes go out of service next, so that little work is lost and nobody waits for ever."""

"""The scheduler of notify: which nodes go out of service next, so that little work is lost and no maintenance waits for ever."""

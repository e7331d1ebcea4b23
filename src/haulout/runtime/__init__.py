"""The shell around the kernel: it feeds the store, runs the decisions and carries out their actions."""

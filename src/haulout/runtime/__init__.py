"""The shell: feeds the store, asks the decisions, carries out their actions."""

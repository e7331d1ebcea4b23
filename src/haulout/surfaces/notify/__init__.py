"""The notify surface: NotifyMaintenances as NVIDIA's PIKA has them, and the operators that it leaves to its users."""

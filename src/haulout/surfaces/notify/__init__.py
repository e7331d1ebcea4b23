"""The notify surface: NVIDIA's PIKA for NotifyMaintenances, and in-box operators for the steps it leaves to users."""

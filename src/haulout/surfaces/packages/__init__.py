"""The packages surface: host changes rolled over a fleet, as the NVIDIA skyhook operator does."""

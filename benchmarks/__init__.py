"""Side-by-side measurements, with their last results."""

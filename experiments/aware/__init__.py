"""What a score reaches that may see A: networks, adjusted LightGBM, and their peers."""

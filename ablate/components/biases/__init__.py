"""Biases: what is added to the scores by distance. Slot `bias`."""

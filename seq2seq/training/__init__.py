"""Training: the loss, the optimiser, the Lightning module, and what a run leaves on disk."""

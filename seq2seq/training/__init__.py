"""Training: the loss, the optimiser, the loop, and what a run leaves on disk.

Start with `train.py`, a run from top to bottom; `trainer.py` is its loop.
"""

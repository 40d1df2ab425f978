"""Measurements of speed and memory; see `scripts/compare_attention.py`."""

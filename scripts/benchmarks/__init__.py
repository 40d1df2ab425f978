"""Speed and memory of training, decoding, the data pipeline and attention.

Start with `scripts/benchmark.py`; `compare.py` measures two checkouts in turns.
"""

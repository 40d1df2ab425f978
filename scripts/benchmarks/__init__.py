"""Speed and memory of training, decoding, the data pipeline and attention.

Start reading at `scripts/benchmark.py`; `compare.py` measures two checkouts in turn.
"""

"""Search for translations of token ids, with any model that gives the next token's probabilities.

Start reading at `search.py`, which makes batches; `step.py` says what a strategy asks of a model.
The state of a search is in `model/kv_cache.py`; `cuda_graph.py` replays steps on a GPU.
"""

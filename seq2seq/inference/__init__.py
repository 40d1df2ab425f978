"""Text in, text out: sentences go through steps to the engine of a model, and back.

Start reading at `translator.py`, which has the steps in order; `pipeline.py` runs them.
"""

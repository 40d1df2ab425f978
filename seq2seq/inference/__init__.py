"""Translation of texts: steps prepare each sentence, an engine runs the model on it, and the same
steps, in reverse, finish the translation.

Start reading at `translator.py`, which lists the steps in order; `pipeline.py` runs them.
"""

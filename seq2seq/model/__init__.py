"""Models that translate: a transformer, and a recurrent baseline with additive attention.

Start reading at `transformer.py`; `translation_model.py` says what every model offers.
"""

"""Bundles: folders of trained models, which are read without pickle.

`bundle.py` reads and writes a bundle, `config.py` reads its settings without torch, `find.py`
finds a bundle by name. Start reading at `bundle.py`.
"""

"""The folder of a trained model, which needs no pickle to be read.

`bundle.py` reads and writes it, `config.py` knows its settings without torch, `find.py` says where
one is. Start reading at `bundle.py`.
"""

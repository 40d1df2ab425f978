"""Models of other programs: `huggingface.py` reads and writes those of the Transformers library.

`vocabulary.py` has their tokens; `seq2seq/bundle/hub.py` makes bundles of them.
"""

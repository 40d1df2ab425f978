"""From files of sentence pairs to padded batches of token ids.

Start reading at `pipeline.py`, which prepares a corpus once; `datamodule.py` makes batches of it,
and `collate.py` pads a batch and makes the decoder's inputs and labels.
"""

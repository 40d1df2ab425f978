"""Read and write models of other programs: those of Hugging Face's Transformers library.

Start reading at `huggingface.py`; `vocabulary.py` converts the tokens, `weights.py` the weights.
`seq2seq/bundle/hub.py` converts such models to bundles.
"""

"""Models of other programs: `huggingface.py` reads and writes those of the Transformers library.

`hub.py` finds them on the Hugging Face hub.
"""

"""A server: translation over HTTP by the APIs of LibreTranslate and DeepL and one of its own.

Start reading at `app.py`, which puts the parts together; `batcher.py` joins requests into batches.
"""

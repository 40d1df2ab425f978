"""An HTTP server for translation, with the APIs of LibreTranslate and DeepL and its own API, /v1.

Start reading at `app.py`, which puts the parts together; `batcher.py` joins requests into batches.
"""

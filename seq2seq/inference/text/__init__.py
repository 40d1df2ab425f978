"""Steps that change a text before the search and its translation afterwards, one step a file.

Start reading at `step.py`, the interface; `inference/translator.py` lists the steps in order.
"""

# Names of the steps that may be left out of a translation.
NAMES = ("language", "segmentation", "casing", "typography", "markup", "quotation", "placeholders",
         "terminology", "degeneration", "fallback")  # fmt: skip
# For a text in another language: note it; note it and do not translate it; do not look for it.
SOURCE_LANGUAGE = ("check", "leave", "trust")

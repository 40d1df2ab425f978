"""What is done to a text before and after the search, one step a file, each named by its concept.

Start reading at `inference/translator.py`, which has the steps in their order.
"""

# What may be left out of a translation, by its name.
NAMES = ("language", "segmentation", "casing", "typography", "markup", "quotation", "placeholders",
         "terminology", "degeneration", "fallback")  # fmt: skip
# What happens to a text in another language: it is noted, noted and left, or not looked for.
SOURCE_LANGUAGE = ("check", "leave", "trust")

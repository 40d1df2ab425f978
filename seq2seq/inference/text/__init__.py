"""What is done to a text before and after the search, one step a file, each named by its concept.

Start reading at `inference/translator.py`, which has the steps in their order.
"""

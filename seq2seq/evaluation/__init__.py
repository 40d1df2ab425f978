"""Evaluation: the only place where translations are compared with references.

Start with `evaluate.py`, the command. `metrics.py` computes every score, also for validation and
reports; `record.py` reads and writes `evaluation.json`; `compare.py` tests which system is better.
"""

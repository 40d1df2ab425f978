"""Scores: the only place where translations are compared with references."""

"""Text in, text out: the shipped form of a model and the translator around it."""

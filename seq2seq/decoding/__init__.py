"""Search for translations: strategies over a step model, which know nothing of text."""

"""The network: attention, layers, transformer. Knows no text, no training, no search."""

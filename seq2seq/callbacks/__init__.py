"""What watches a training run: checkpoints, validation BLEU, throughput, progress."""

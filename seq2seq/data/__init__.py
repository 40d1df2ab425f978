"""From files of sentence pairs to padded batches of token ids."""

"""A walk through two step models at once, as a search with beams would take it."""

import torch
from tiny import random_ids

from seq2seq.data.tokenizer import BOS, PAD

PADDED = random_ids(0, 3, 7)
PADDED[0, 4:] = PADDED[2, 1:] = PAD
EVEN = random_ids(0, 3, 7)


def assert_same_walk(one, other, source_BS):
    """Both give the same log probabilities, after any reordering, for 40 steps (over one block).

    One hypothesis of each of three sentences becomes four, each a copy of any of its sentence;
    in the middle a sentence leaves, and the others change places.
    """
    states = [step.start(source_BS) for step in (one, other)]
    draw = torch.Generator().manual_seed(0)
    tokens_R, sentences, beams = torch.full((3,), BOS), 3, 1
    for position in range(40):
        expected, found = (
            step.step(tokens_R, state) for step, state in zip((one, other), states, strict=True)
        )
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        parents = torch.randint(beams, (sentences, 4), generator=draw)
        rows_BN, beams = parents + beams * torch.arange(sentences)[:, None], 4
        if position == 20:
            kept = torch.tensor([2, 0])
            rows_BN, sentences = rows_BN[kept], 2
            for state in states:
                state.keep(kept, rows_BN.flatten())
        else:
            for state in states:
                state.reorder(rows_BN.flatten())
        tokens_R = random_ids(position, sentences * beams)

"""How many sentences a short run translates in its validations."""

import pytest

from seq2seq.config import TrainerConfig
from seq2seq.training.validation import scored_pairs


@pytest.mark.parametrize(("settings", "scored"), [
    ({"max_steps": 3}, 50), ({"max_steps": 20}, 200), ({"max_steps": 50}, 500),
    ({"max_steps": 51}, 1000), ({"max_steps": 3, "val_pairs": 1000}, 1000),
])  # fmt: skip
def test_a_short_run_translates_few_sentences_unless_told_otherwise(settings, scored):
    assert scored_pairs(TrainerConfig(**settings), 1000) == scored
    assert scored_pairs(TrainerConfig(**settings), 7) == 7

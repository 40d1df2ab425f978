"""Training and validating on the first pairs only."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from seq2seq.config import CleaningConfig, CorpusConfig, DataConfig, TokenizerConfig, TrainerConfig
from seq2seq.data.datamodule import TranslationData
from seq2seq.errors import ConfigError, RunError

TRAIN = [(f"I see {n} big houses", f"je vois {n} grandes maisons") for n in range(40)]
TRAIN.insert(2, ("much too long " * 50, "trop long " * 50))
VAL = [(f"a cat and {n} dogs", f"un chat et {n} chiens") for n in range(6)]
FIRST = [pair for pair in TRAIN if "long" not in pair[0]]


def write(folder: Path, splits) -> None:
    folder.mkdir(exist_ok=True)
    for split, pairs in splits.items():
        lines = "".join(f"{en}\t{fr}\n" for en, fr in [("en", "fr"), *pairs])
        (folder / f"{split}.tsv").write_text(lines, encoding="utf-8")


def opened(folder: Path, *, data=None, dropout=0.0, **limits) -> TranslationData:
    if data is None:
        write(folder, {"train": TRAIN, "val": VAL})
        data = {"path": str(folder)}
    found = TranslationData(
        DataConfig(name="mine", max_tokens=128, **{"test": None, **data}),
        CleaningConfig(filters=["duplicate"], normalise=[]),
        TokenizerConfig(vocab_size=300, dropout=dropout, dropout_variants=2 if dropout else 8),
        60,
        1,
        **limits,
    )
    found.prepare()
    return found


def texts_of_an_epoch(data: TranslationData, pairs: int):
    """The pairs of the first batches that together hold so many."""
    seen = []
    for batch in islice(data.train_dataloader(), 100):
        for source, label in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
            both = (data.vocabularies.source, source), (data.vocabularies.target, label)
            seen.append(tuple(tokenizer.decode([ids])[0] for tokenizer, ids in both))
        if len(seen) >= pairs:
            return seen
    raise AssertionError("never so many")


def test_an_epoch_has_the_first_usable_pairs_once(tmp_path):
    write(tmp_path, {"train": TRAIN, "val": VAL})
    data = opened(tmp_path, data={"path": str(tmp_path)}, train_pairs=7)
    assert sorted(texts_of_an_epoch(data, 7)) == sorted(FIRST[:7])
    assert len(data.val_pairs) == len(VAL)


def test_validation_can_be_on_the_training_pairs(tmp_path):
    write(tmp_path, {"train": TRAIN})  # no validation text is needed
    corpus = {"path": str(tmp_path), "val": None}
    data = opened(tmp_path, data=corpus, train_pairs=7, val_on_train=True)
    assert data.val_pairs == FIRST[:7]
    assert sum(batch.source.size(0) for batch in data.val_dataloader()) == 7
    assert opened(tmp_path, data=corpus, val_pairs=3, val_on_train=True).val_pairs == FIRST[:3]


def test_validation_text_is_whole_where_segmentations_vary(tmp_path):
    data = opened(tmp_path, dropout=0.5, train_pairs=7, val_on_train=True)
    assert data.val_pairs == FIRST[:7]


def test_validation_can_be_on_its_first_pairs(tmp_path):
    data = opened(tmp_path, val_pairs=2)
    assert data.val_pairs == VAL[:2]
    assert len(data.val_lengths) == 2


def test_the_weights_of_a_mixture_play_no_part(tmp_path):
    for number in range(2):
        write(tmp_path / str(number), {"train": TRAIN[20 * number :][:20], "val": VAL})
    members = {f"m{n}": CorpusConfig(path=str(tmp_path / str(n)), test=None) for n in range(2)}
    mixture = {"train": None, "val": None, "members": members, "weights": {"m0": 3.0}}
    data = opened(tmp_path, data=mixture, train_pairs=5)
    assert sorted(texts_of_an_epoch(data, 5)) == sorted(FIRST[:5])
    assert data.summary().startswith("5 training")


def test_more_than_there_are_is_all(tmp_path):
    assert len(opened(tmp_path, train_pairs=1000).usable) == len(FIRST)


@pytest.mark.parametrize("limit", [{"train_pairs": 8}, {"val_pairs": 2}, {}])
def test_a_run_goes_on_with_the_same_pairs_only(limit, tmp_path):
    data = opened(tmp_path, train_pairs=7)
    state = {"place": {"epoch": 0, "batch": 0}, "data": data.fingerprint}
    opened(tmp_path, train_pairs=7).load_state_dict(state)
    with pytest.raises(RunError, match="train_pairs=7"):
        opened(tmp_path, **limit).load_state_dict(state)


def test_the_whole_training_text_is_not_translated_by_mistake():
    with pytest.raises(ConfigError, match=r"say how much of it, trainer\.val_pairs=NUMBER"):
        TrainerConfig(val_on_train=True)

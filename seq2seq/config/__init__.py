"""Every setting of the project: its type, default, meaning and the rules between settings.

Each group of settings has a file. `rules.py` has the rules between groups, `commands.py` the groups
of each command. Start reading with `checked.py`, which defines what a setting is. These dataclasses
are the schema of the YAML files in `configs/`: Hydra merges the files into them, so an unknown key
or a wrong type fails at once. All code below the entry points receives these dataclasses.
"""

from seq2seq.config.checked import Checked, flat, unchecked
from seq2seq.config.checkpoint import CheckpointConfig
from seq2seq.config.cleaning import FILTERS, NORMALISATIONS, CleaningConfig
from seq2seq.config.commands import AverageConfig, EvaluateConfig, PrepareConfig, TrainConfig
from seq2seq.config.data import CorpusConfig, DataConfig
from seq2seq.config.decode import DecodeChanges, DecodeConfig
from seq2seq.config.logger import LoggerConfig
from seq2seq.config.model import (
    ARCHITECTURES,
    FREE_OF_WEIGHTS,
    KERNELS,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
)
from seq2seq.config.optim import OptimConfig
from seq2seq.config.renames import migrated
from seq2seq.config.rules import FIXED, RESUMABLE, may_change
from seq2seq.config.tokenizer import BYTE_VOCABULARY, TokenizerConfig
from seq2seq.config.trainer import PRECISIONS, TrainerConfig

__all__ = [
    "ARCHITECTURES", "BYTE_VOCABULARY", "FILTERS", "FIXED", "FREE_OF_WEIGHTS", "KERNELS",
    "NORMALISATIONS", "PRECISIONS", "RESUMABLE", "AverageConfig", "Checked", "CheckpointConfig",
    "CleaningConfig", "CorpusConfig", "DataConfig", "DecodeChanges", "DecodeConfig",
    "EvaluateConfig", "LoggerConfig", "ModelConfig", "OptimConfig", "PrepareConfig",
    "RecurrentConfig", "TokenizerConfig", "TrainConfig", "TrainerConfig", "TransformerConfig",
    "flat", "may_change", "migrated", "unchecked",
]  # fmt: skip

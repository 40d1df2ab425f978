"""Settings as the commands compose them from `configs/` and a command line, in this process."""

from __future__ import annotations

from typing import Any

import hydra
import pytest
from benchmarks.settings import DataBenchmarkConfig, DecodeBenchmarkConfig, TrainBenchmarkConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seq2seq.cli.arguments import read_arguments
from seq2seq.cli.explain import explain
from seq2seq.cli.names import resources
from seq2seq.cli.settings import build, register, values_of
from seq2seq.config import AverageConfig, EvaluateConfig, PrepareConfig, TrainConfig
from seq2seq.errors import ConfigError

CONFIGS = resources() / "configs"
OPTIONS = sorted((file.parent.name, file.stem) for file in CONFIGS.glob("*/*.yaml"))
ACROSS = [option for option in OPTIONS if option[0] in ("experiment", "debug")]  # several groups
GROUPS = [option for option in OPTIONS if option not in ACROSS]
SCHEMAS: dict[str, type[Any]] = {  # by main file
    "train": TrainConfig,
    "evaluate": EvaluateConfig,
    "prepare_data": PrepareConfig,
    "average_checkpoints": AverageConfig,
    "benchmark_data": DataBenchmarkConfig,
    "benchmark_train": TrainBenchmarkConfig,
    "benchmark_decode": DecodeBenchmarkConfig,
}


for main_file, schema in SCHEMAS.items():
    register(main_file, schema)


def compose(*overrides: str, name: str = "train") -> DictConfig:
    """Settings as Hydra hands them to a command, not checked yet."""
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONFIGS)):
        return hydra.compose(name, list(overrides))


def composed(*overrides: str, name: str = "train") -> Any:
    """Checked settings of a command."""
    values = OmegaConf.to_container(compose(*overrides, name=name), resolve=True)
    assert isinstance(values, dict)
    return build(SCHEMAS[name], {str(key): value for key, value in values.items()})


def explained(*overrides: str, name: str = "train") -> str:
    """What a command says about arguments that are refused while settings are composed."""
    schema = SCHEMAS[name]
    try:
        _, arguments = read_arguments(overrides, schema, name)
        build(schema, values_of(compose(*arguments, name=name), schema))
    except ConfigError as error:
        return str(error)
    except (HydraException, OmegaConfBaseException) as error:
        return explain(error, schema)
    pytest.fail(f"{overrides} were not refused")

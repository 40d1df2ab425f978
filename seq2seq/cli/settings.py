"""From the command line and YAML files to checked dataclasses, by Hydra.

Everything below the entry points receives plain dataclasses; only this file knows Hydra.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from seq2seq.cli.exits import fail, run_command
from seq2seq.cli.explain import check_arguments, explain, sections, unknown
from seq2seq.cli.help import help_text, take_help
from seq2seq.cli.sweep import Sweep
from seq2seq.config import (
    ARCHITECTURES,
    FIXED,
    RESUMABLE,
    Checked,
    CorpusConfig,
    DataConfig,
    ModelConfig,
    TrainConfig,
    TransformerConfig,
    may_change,
    migrated,
    unchecked,
)
from seq2seq.cores import set_up_libraries
from seq2seq.errors import SCRIPT_NAMES, ConfigError, RunError, nearest

Settings = TypeVar("Settings", bound=Checked)

# Of the tokenizer, for a vocabulary that is still to be learned.
LEARNED = ("kind", "vocab_size", "joint", "symbols", "sample")
COMMANDS = {script: command for command, script in SCRIPT_NAMES.items()}  # YAML files likewise
PATHS = (  # settings that name a file or folder
    *("run_dir", "resume", "init_from", "run", "output", "bundle", "hypothesis"),
    *("reference", "source", "comet", "comet_command", "data.path", "data.cache", "tokenizer.path"),
)


def resources() -> Path:
    """The folder of `configs/` and `data/`: in an installed copy its own, else the clone."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "resources"
    return installed if installed.is_dir() else package.parent


def hydra_command(
    config_name: str,
    schema: type[Settings],
    run: Callable[[Settings], object],
    about: str = "",
) -> None:
    """Run a command: compose `configs/<config_name>.yaml` with the command line, check, call.

    Args:
        config_name: name of the main YAML file, without suffix.
        schema: the dataclass that it fills.
        run: what to call with the settings.
        about: the help of the command begins with it.
    """
    set_up_libraries()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra shall raise, not print: we word its errors
    configs, presets = resources() / "configs", presets_of(config_name)
    register(config_name, schema)
    arguments = sys.argv[1:]
    topic = run_command(lambda: take_help(arguments, schema, presets))
    if not {"-m", "--multirun"} & set(arguments):  # which give several by a comma
        arguments = [quoted(argument) for argument in arguments]
    run_command(lambda: check_arguments(arguments, schema, presets))
    sweep = Sweep.asked(arguments) if hasattr(schema, "run_dir") and topic is None else None
    if sweep is not None:
        run_command(sweep.require_new)
        arguments.append(f"hydra.sweep.dir='{sweep.folder}'")
    sys.argv[1:] = arguments
    started = False

    @hydra.main(version_base="1.3", config_path=str(configs), config_name=config_name)
    def composed(config: DictConfig) -> object:
        nonlocal started
        started = True
        if topic is not None:
            values = _values(config, schema)
            command = COMMANDS.get(config_name, config_name)
            purpose = about or inspect.cleandoc(schema.__doc__ or "")
            text = help_text(purpose, command, schema, values, presets, configs, topic)
            return run_command(lambda: print(text, flush=True))
        # Here, since a launcher may call this in another process.
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
        if sweep is None:
            return run_command(lambda: run(_to_settings(config, schema)))
        logging.getLogger("hydra").setLevel(logging.WARNING)  # it would list all settings
        number, overrides = HydraConfig.get().job.num, HydraConfig.get().overrides.task
        config.run_dir = str(sweep.run_dir(number, overrides))
        config.logger.group = config.logger.group or sweep.folder.name
        train = partial(_train_alone, config, schema, run)
        return run_command(lambda: sweep.run(number, overrides, train))

    try:
        composed()
    except Exception as error:  # Hydra raises ValueError and others too while it composes
        if sweep is not None and not started and isinstance(error, OSError):
            fail(str(sweep.unwritable(error)), RunError.exit_code)
        if not started or isinstance(error, ConfigCompositionException):
            fail(explain(error, schema), ConfigError.exit_code)
        if sweep is None or not sweep.failed():  # Optuna finds no best run if all failed
            raise
    finally:
        if sweep is not None:
            sweep.report()
    if sweep is not None and sweep.failed():
        fail(f"{sweep.failed()} of the runs failed", 1)


def presets_of(config_name: str) -> dict[str, list[str]]:
    """The presets that a command lets one choose, by group, in the order of its YAML file."""
    folder = resources() / "configs"
    main = yaml.safe_load((folder / f"{config_name}.yaml").read_text(encoding="utf-8"))
    defaults = [key for one in main["defaults"] if isinstance(one, dict) for key in one]
    return {
        group: sorted(file.stem for file in (folder / group).glob("*.yaml"))
        for group in defaults
        if not group.startswith("override ")
    }


def quoted(argument: str) -> str:
    """A path as Hydra reads it, which takes `=`, `,`, `(` or `é` for its own or refuses them."""
    key, _, value = argument.partition("=")
    plain = re.fullmatch(r"[\w/.+@?|%*: -]*", value, re.ASCII) is not None
    if plain or key not in PATHS or value[0] in "'\"[" or "${" in value:
        return argument
    escaped = value.replace("'", "\\'")
    return f"{key}='{escaped}'"


def _train_alone(
    config: DictConfig, schema: type[Settings], run: Callable[[Settings], object]
) -> object:
    """One run of a sweep.

    Raises:
        ConfigError: it would need processes beside this one.
    """
    processes = config.trainer.devices * config.trainer.num_nodes
    if processes > 1:
        raise ConfigError(
            [
                f"-m trains each run in one process, and trainer.devices={config.trainer.devices} "
                f"x trainer.num_nodes={config.trainer.num_nodes} asks for {processes}: leave them "
                "out, or start the runs one by one with torchrun"
            ]
        )
    return run(_to_settings(config, schema))


def register(config_name: str, schema: type[Settings]) -> None:
    """Tell Hydra the schema; presets in `configs/model` begin with that of their architecture."""
    OmegaConf.register_new_resolver("root", lambda path: str(resources() / path), replace=True)
    store = ConfigStore.instance()
    node = OmegaConf.structured(schema)
    if sections(schema).get("model") is not None:
        node.model = MISSING
    store.store(name=f"{config_name}_schema", node=node)
    for name, part in ARCHITECTURES.items():
        store.store(group="model", name=f"_{name}", node=part)


def _values(config: DictConfig, schema: type[Any]) -> dict[str, Any]:
    """Composed settings as nested dicts, checked by type only."""
    try:
        values: Any = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError([explain(error, schema)]) from error
    return {str(key): value for key, value in values.items()}


def _to_settings(config: DictConfig, schema: type[Settings]) -> Settings:
    values = _values(config, schema)
    if values.get("resume") is not None:
        return build(schema, _resumed(config, str(values["resume"])))
    if values.get("init_from") is not None:
        values = _fine_tuned(config, values, str(values["init_from"]))
    if values.get("run_dir") is not None and _restarted(Path(values["run_dir"])):
        values["resume"] = values["run_dir"]
    return build(schema, values)


def build(schema: type[Settings], values: dict[str, Any]) -> Settings:
    """Make a settings object from nested dicts, reporting the problems of all parts together.

    Raises:
        ConfigError: some values are impossible.
    """
    problems: list[str] = []
    parts = dict(values)
    for name, part in sections(schema).items():
        if name == "model":
            part = _kind_of_model(parts[name])
        problems += _added(schema, name, part, parts[name])
        for member, own in parts[name].get("members", {}).items():
            problems += _added(schema, f"{name}.members.{member}", CorpusConfig, own)
        parts[name] = unchecked(part, parts[name])
        problems += parts[name].problems()
    problems += unchecked(schema, parts).problems()
    if problems:
        raise ConfigError(problems)
    for part in parts.values():
        if isinstance(part, DataConfig):
            members: dict[str, Any] = part.members  # still plain dicts
            part.members = {key: CorpusConfig(**member) for key, member in members.items()}
    return schema(**parts)


def _added(
    schema: type[Any], name: str, part: type[Any], values: dict[str, Any]
) -> Iterator[str]:
    """What a plus has added to a section that has no such setting."""
    valid = [field.name for field in dataclasses.fields(part)]
    for key in values:
        if key not in valid:
            yield unknown(f"{name}.{key}", schema, part)


def _kind_of_model(values: dict[str, Any]) -> type[ModelConfig]:
    """The one whose settings these are, whatever `architecture` says; else the one it names."""
    for kind in ARCHITECTURES.values():
        if {field.name for field in dataclasses.fields(kind)} == set(values):
            return kind
    return ARCHITECTURES.get(values.get("architecture", ""), TransformerConfig)


def _resumed(config: DictConfig, folder: str) -> dict[str, Any]:
    """The settings of the run in `folder`, with those that may change taken from the command."""
    file = Path(folder) / "config.yaml"
    if not file.is_file():
        raise RunError(
            f"resume={folder}: no run is there ({file} is missing). Give the folder of a run, "
            "such as runs/starter-base-20260101-120000"
        )
    try:
        written: Any = OmegaConf.to_container(OmegaConf.load(file))
        stored: Any = OmegaConf.create(migrated(written))
        # Runs of before there was a choice do not name it.
        architecture = OmegaConf.select(stored, "model.architecture", default="transformer")
        if architecture not in ARCHITECTURES:
            raise ValueError(
                f"model.architecture={architecture} is not known: "
                f"{nearest(str(architecture), ARCHITECTURES)}"
            )
        typed = OmegaConf.structured(TrainConfig(model=ARCHITECTURES[architecture]()))
        stored = OmegaConf.merge(typed, stored)
    except (OmegaConfBaseException, YAMLError, OSError, TypeError, ValueError) as error:
        text = explain(error, TrainConfig)
        raise RunError(f"resume={folder}: {file} cannot be read: {text}") from error
    for key in map(_key_of, _overrides()):
        if key == "resume":
            continue
        if (why := _refused(folder, key)) is not None:
            raise RunError(why)
        if key == "data.path" and stored.data.path is not None:
            for member in stored.data.members.values():
                if member.path == stored.data.path:  # those in the shared folder move with it
                    member.path = config.data.path
        OmegaConf.update(stored, key, OmegaConf.select(config, key))
    stored.resume = folder
    return _values(stored, TrainConfig)


def _refused(folder: str, key: str) -> str | None:
    """Why a setting cannot be given when the run in `folder` goes on; None if it can."""
    if key == "init_from":
        return (
            f"resume={folder} goes on with a run, and init_from= starts a new one from the "
            "weights of another: give one of them"
        )
    if key == "dry_run":
        return (
            f"resume={folder} goes on with a run, and dry_run= says what a new one would take: "
            "give one of them"
        )
    if key == "debug":
        return (
            f"resume={folder} continues that run as it was, and debug= chooses a short run of its "
            f"own: give one of them. To profile the run that goes on: resume={folder} "
            "trainer.profile=true"
        )
    if f"{key}.*" in RESUMABLE:
        return (
            f"resume={folder} continues that run as it was, and {key}= chooses many settings at "
            f"once: give only those that shall change, each as {key}.NAME=VALUE"
        )
    if not may_change(key):
        return (
            f"resume={folder} continues that run as it was, so {key} cannot change (only "
            f"{', '.join(RESUMABLE)} can, and of these not {', '.join(FIXED)}). Leave it out, "
            "or start a new run without resume="
        )
    return None


def _restarted(run_dir: Path) -> bool:
    """Whether torchrun or SLURM has started this command line again, and its run exists."""
    names = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
    again = any(os.environ.get(name, "0") != "0" for name in names)
    return again and (run_dir / "config.yaml").is_file()


def _fine_tuned(config: DictConfig, values: dict[str, Any], folder: str) -> dict[str, Any]:
    """The settings with the model of a bundle, unless the command line chooses one.

    Raises:
        BundleError: there is no bundle.
        ConfigError: settings of a vocabulary that would not be used.
    """
    from seq2seq.inference.bundle_folder import bundle_folder, read_config

    keys = [key for override in _overrides() if (key := _key_of(override)) != "init_from"]
    learned = [k for k in keys if k in ("tokenizer", *(f"tokenizer.{name}" for name in LEARNED))]
    if learned:
        raise ConfigError(
            f"{key} does nothing with init_from={folder}, whose own vocabulary is used: leave it "
            "out"
            for key in learned
        )
    model = read_config(bundle_folder(folder) / "config.json").model
    if "model" in keys:
        return values
    own = {key.removeprefix("model."): OmegaConf.select(config, key)
           for key in keys if key.startswith("model.")}  # fmt: skip
    return values | {"model": dataclasses.asdict(model) | own}


def _overrides() -> list[str]:
    """The settings on the command line."""
    return list(HydraConfig.get().overrides.task)


def _key_of(override: str) -> str:
    return override.lstrip("+~").split("=", 1)[0]

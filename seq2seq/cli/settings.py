"""From the command line and YAML files to checked dataclasses, by Hydra.

Everything below the entry points receives plain dataclasses; only this file knows Hydra.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import (
    ConfigCompositionException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seq2seq.cli.exits import fail, run_command
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
from seq2seq.config.renames import refusal
from seq2seq.cores import set_up_libraries
from seq2seq.errors import ConfigError, RunError, UserError, nearest

Settings = TypeVar("Settings", bound=Checked)

# Of the tokenizer, for a vocabulary that is still to be learned.
LEARNED = ("kind", "vocab_size", "joint", "symbols", "sample")
EXTRAS = ("optuna", "submitit")  # optional packages that are plugins of Hydra
ROOT = Path(__file__).resolve().parents[2]  # of the clone: configs/ and data/ stand there


def hydra_command(
    config_name: str,
    schema: type[Settings],
    run: Callable[[Settings], object],
    folders: tuple[str, ...] = (),
) -> None:
    """Run a script: compose `configs/<config_name>.yaml` with the command line, check, call.

    Args:
        config_name: name of the main YAML file, without suffix.
        schema: the dataclass that it fills.
        run: what to call with the settings.
        folders: settings that name a folder although a config group has the same name, as
            `model` does when a trained one is evaluated; Hydra would look for a YAML file.
    """
    _require_clone()
    set_up_libraries()
    given = _take_folders(folders)
    started = False
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra shall raise, not print: we word its errors
    OmegaConf.register_new_resolver("root", lambda path: str(ROOT / path), replace=True)
    register(config_name, schema)
    sweep = Sweep.asked(sys.argv[1:]) if hasattr(schema, "run_dir") else None
    if sweep is not None:
        run_command(sweep.require_new)
        sys.argv.append(f"hydra.sweep.dir='{sweep.folder}'")

    @hydra.main(version_base="1.3", config_path=str(ROOT / "configs"), config_name=config_name)
    def composed(config: DictConfig) -> object:
        nonlocal started
        started = True
        # Here, since a launcher may call this in another process.
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
        if sweep is None:
            return run_command(lambda: run(_to_settings(config, schema, given)))
        logging.getLogger("hydra").setLevel(logging.WARNING)  # it would list all settings
        number, overrides = HydraConfig.get().job.num, HydraConfig.get().overrides.task
        config.run_dir = str(sweep.run_dir(number, overrides))
        config.logger.group = config.logger.group or sweep.folder.name
        train = partial(_train_alone, config, schema, run)
        return run_command(lambda: sweep.run(number, overrides, train))

    for argument in sys.argv[1:]:
        if argument.startswith("~"):
            fail(f"{argument}: a setting cannot be taken away, only given another value", 2)
    try:
        composed()
    except Exception as error:  # Hydra raises ValueError and others too while it composes
        if sweep is not None and not started and isinstance(error, OSError):
            fail(str(sweep.unwritable(error)), RunError.exit_code)
        if not started or isinstance(error, ConfigCompositionException):
            fail(_explain(error, schema), ConfigError.exit_code)
        if sweep is None or not sweep.failed():  # Optuna finds no best run if all failed
            raise
    finally:
        if sweep is not None:
            sweep.report()
    if sweep is not None and sweep.failed():
        fail(f"{sweep.failed()} of the runs failed", 1)


def _require_clone() -> None:
    if not (ROOT / "configs").is_dir():
        fail(
            f"the package in {ROOT} is a copy without configs/, and changes to the clone would do "
            "nothing. Install it so that the clone itself runs: pip install -e .",
            RunError.exit_code,
        )


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
    return run(_to_settings(config, schema, {}))


def register(config_name: str, schema: type[Settings]) -> None:
    """Tell Hydra the schema; presets in `configs/model` begin with that of their architecture."""
    store = ConfigStore.instance()
    node = OmegaConf.structured(schema)
    if sections(schema).get("model") is not None:
        node.model = MISSING
    store.store(name=f"{config_name}_schema", node=node)
    for name, part in ARCHITECTURES.items():
        store.store(group="model", name=f"_{name}", node=part)


def _take_folders(names: tuple[str, ...]) -> dict[str, str]:
    """Take `name=FOLDER` arguments off the command line."""
    given = {}
    for argument in sys.argv[1:]:
        name, _, value = argument.lstrip("+").partition("=")
        if name in names:
            sys.argv.remove(argument)
            if value:
                given[name] = value
    return given


def _to_settings(
    config: DictConfig, schema: type[Settings], given: dict[str, str]
) -> Settings:
    values = OmegaConf.to_container(config, resolve=True)
    assert isinstance(values, dict)
    if values.get("resume") is not None:
        values = _resumed(config, str(values["resume"]))
    else:
        if values.get("init_from") is not None:
            values = _fine_tuned(config, str(values["init_from"]))
        if values.get("run_dir") is not None and _restarted(Path(values["run_dir"])):
            values["resume"] = values["run_dir"]
    return build(schema, {str(key): value for key, value in values.items()} | given)


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
        problems += _added(name, part, parts[name])
        for member, own in parts[name].get("members", {}).items():
            problems += _added(f"{name}.members.{member}", CorpusConfig, own)
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


def _added(name: str, part: type[Any], values: dict[str, Any]) -> Iterator[str]:
    """What a plus has added to a section that has no such setting."""
    valid = [field.name for field in dataclasses.fields(part)]
    for key in values:
        if key not in valid:
            unknown = f"there is no setting {name}.{key}: {nearest(key, valid)}"
            yield refusal(f"{name}.{key}") or unknown


def _kind_of_model(values: dict[str, Any]) -> type[ModelConfig]:
    """The one whose settings these are, whatever `architecture` says; else the one it names."""
    for kind in ARCHITECTURES.values():
        if {field.name for field in dataclasses.fields(kind)} == set(values):
            return kind
    return ARCHITECTURES.get(values.get("architecture", ""), TransformerConfig)


def _resumed(config: DictConfig, folder: str) -> dict[Any, Any]:
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
    except (OmegaConfBaseException, OSError, TypeError, ValueError) as error:
        raise RunError(f"resume={folder}: {file} cannot be read: {error}") from error
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
    values = OmegaConf.to_container(stored, resolve=True)
    assert isinstance(values, dict)
    return values


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


def _fine_tuned(config: DictConfig, folder: str) -> dict[Any, Any]:
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
    values = OmegaConf.to_container(config, resolve=True)
    assert isinstance(values, dict)
    if "model" not in keys:
        own = {key.removeprefix("model."): OmegaConf.select(config, key)
               for key in keys if key.startswith("model.")}
        values["model"] = dataclasses.asdict(model) | own
    return values


def _overrides() -> list[str]:
    """The settings on the command line."""
    return list(HydraConfig.get().overrides.task)


def _key_of(override: str) -> str:
    return override.lstrip("+~").split("=", 1)[0]


def sections(schema: type[Any]) -> dict[str, type[Any]]:
    """The fields of a schema that are settings objects themselves."""
    factories: dict[str, Any] = {f.name: f.default_factory for f in dataclasses.fields(schema)}
    return {name: part for name, part in factories.items() if _is_settings(part)}


def _is_settings(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Checked)


def keys_of(schema: type[Any]) -> Iterator[str]:
    """All dotted setting names of a schema."""
    for field in dataclasses.fields(schema):
        yield field.name
        part = sections(schema).get(field.name)
        if part is not None:
            kinds = ARCHITECTURES.values() if issubclass(part, ModelConfig) else [part]
            keys = dict.fromkeys(key for kind in kinds for key in keys_of(kind))
            yield from (f"{field.name}.{key}" for key in keys)


def _unknown(key: str, text: str, schema: type[Any]) -> str:
    """What is wrong with a setting that OmegaConf refused in `text`."""
    if (renamed := refusal(key)) is not None:
        return renamed
    valid = list(keys_of(schema))
    if f"object_type={ModelConfig.__name__}" in text:
        presets = " or ".join(f"_{name}" for name in ARCHITECTURES)
        return (
            "this preset of model= does not say what kind of model it is: begin it with the "
            f"lines 'defaults:' and '  - base' (another preset, or {presets})"
        )
    if f"object_type={CorpusConfig.__name__}" in text:
        unknown = re.search(r"Key '([^']*)'", text)
        name = unknown.group(1) if unknown else key
        return f"there is no setting {name!r} of a corpus: {nearest(name, keys_of(CorpusConfig))}"
    add = {
        "where": "+data.where.COLUMN=[VALUE]",
        "variants": "+data.variants.NAME=SHARE",
        "members": "+data@data.members.NAME=files data.members.NAME.path=FOLDER",
        "weights": "+data.weights.NAME=NUMBER",
        "final_weights": "+data.final_weights.NAME=NUMBER",
    }
    named = re.match(rf"data\.(?:members\.[^.]+\.)?({'|'.join(add)})(?![^.])", key)
    if named and "data.members" in valid:
        example = add[named[1]].replace("data.", named[0].removesuffix(named[1]), 1)
        return f"{named[0]} takes names of your choice; add one with a plus: {example}"
    if key in valid:
        return f"{key} is no setting of this kind of model: leave it out, or choose another model="
    if same := [name for name in valid if name.endswith(f".{key}")]:
        return f"there is no setting {key!r}: did you mean {' or '.join(map(repr, same))}?"
    return f"there is no setting {key!r}: {nearest(key, valid)}"


def _explain(error: Exception, schema: type[Any]) -> str:
    """Hydra's and OmegaConf's errors in words that name the nearest valid thing."""
    if isinstance(error, UserError):
        return str(error)
    text, cause = str(error), error.__cause__ or error.__context__
    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = (error.missing_cfg_file or "").rpartition("/")
        extra = name.partition("_")[0]
        if group in ("hydra/launcher", "hydra/sweeper") and extra in EXTRAS:
            return f"{group}={name} needs a package: pip install -e '.[{extra}]'"
        options = [option for option in error.options if not option.startswith("_")]
        return f"{group}={name} is not known: {nearest(name, options)}"
    override = re.search(r"override '?([^'\s]+)'?", text)
    given = override.group(1).rstrip(".") if override else ""
    key = given.lstrip("+~").split("=")[0]
    untyped = "is not a subclass of CorpusConfig" in f"{text} {cause}"
    if "Could not override" in text or "not in '" in text or "not in struct" in text or untyped:
        in_file = re.search(r"In '([^']+)'.*full_key: (\S+)", text, re.DOTALL)
        if in_file and not key:
            return f"{in_file[1]}.yaml: {_unknown(in_file[2], text, schema)}"
        return _unknown(key, f"{text} {cause}", schema)
    if isinstance(error, OverrideParseException):
        return (
            f"cannot read {error.override!r}: settings are given as name=value, for example "
            "model=base; put quotes around a value with special characters: 'name=\"value\"'"
        )
    reason = (str(cause or error) or type(error).__name__).splitlines()[0]
    return f"{given}: {reason}" if given else reason

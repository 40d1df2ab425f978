"""Every YAML file fills the dataclasses, and the command line wins over files."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from itertools import zip_longest
from typing import Any

import pytest
from composing import ACROSS, CONFIGS, GROUPS, SCHEMAS, compose, composed, explained
from conftest import ROOT
from omegaconf import OmegaConf

from seq2seq.cli.arguments import read_arguments
from seq2seq.cli.names import settings_of
from seq2seq.cli.resume import resumed
from seq2seq.cli.settings import build
from seq2seq.config import EvaluateConfig, TrainConfig, TransformerConfig
from seq2seq.errors import ConfigError
from seq2seq.training.run_folder import write_settings


def written(group: str, name: str) -> dict[str, Any]:
    """What stands in a file itself, resolved."""
    values = OmegaConf.create({group: OmegaConf.load(CONFIGS / group / f"{name}.yaml")})
    found = OmegaConf.to_container(values, resolve=True)
    assert isinstance(found, dict)
    found = found[group]
    return {str(key): value for key, value in found.items() if key != "defaults"}


def holds(section: Any, own: Any) -> bool:
    """Whether a section has what a file says, down to the members of mixtures."""
    if not isinstance(own, dict):
        return bool(section == own)
    return all(holds(section[key], value) for key, value in own.items())


def test_there_are_options_to_test():
    expected = {"model", "data", "optim", "decode", "trainer", "logger"}
    assert {group for group, _ in GROUPS} >= expected
    assert {group for group, _ in ACROSS} == {"experiment", "debug"}


@pytest.mark.parametrize("file", [file.stem for file in CONFIGS.glob("*.yaml")])
def test_every_command_composes_by_itself(file):
    needed = {"evaluate": ["bundle=x"], "average_checkpoints": ["run=x", "output=y"]}
    assert isinstance(composed(*needed.get(file, []), name=file), SCHEMAS[file])


def options_together(*groups: str) -> list[dict[str, str]]:
    """One option of each group at a time: compositions take most of the time of these tests."""
    options = [[(of, name) for of, name in (*GROUPS, *ACROSS) if of == group] for group in groups]
    return [dict(filter(None, some)) for some in zip_longest(*options)]


ONE_OF_EACH = options_together(*sorted({group for group, _ in GROUPS}))


@pytest.mark.parametrize("options", ONE_OF_EACH, ids=lambda options: ",".join(options.values()))
def test_every_option_sets_what_it_says(options):
    settings = composed(*(f"{group}={name}" for group, name in options.items()))
    for group, name in options.items():
        section, own = asdict(getattr(settings, group)), written(group, name)
        assert own
        assert holds(section, own)
        if group in ("model", "data"):
            assert section["name"] == name


@pytest.mark.parametrize(("group", "name"), ACROSS)
def test_every_preset_across_groups_sets_what_it_says(group, name):
    settings = asdict(composed(f"{group}={name}"))
    for section, own in written(group, name).items():
        for key, value in own.items():
            assert settings[section][key] == value


@pytest.mark.parametrize("debug", [name for group, name in ACROSS if group == "debug"])
@pytest.mark.parametrize("groups", [["model", "data", "optim", "tokenizer"], ["experiment"]])
def test_debugging_goes_with_every_model_corpus_and_schedule(debug, groups):
    for options in options_together(*groups):
        composed(f"debug={debug}", *(f"{group}={name}" for group, name in options.items()))


def test_the_end_of_an_experiment_can_be_left_out():
    final = "+data.final_weights.short=9", "data.final_steps=9"
    assert composed("data=general", *final).data.final_steps == 9
    assert composed("data=starter", *final, "data.final_steps=0").data.final_steps == 0


@pytest.mark.parametrize("name", [name for group, name in GROUPS if group == "data"])
def test_evaluation_composes_with_every_corpus(name):
    settings = composed(f"data={name}", "bundle=runs/x", name="evaluate")
    assert isinstance(settings, EvaluateConfig)
    assert (settings.bundle, settings.data.name, settings.split) == ("runs/x", name, "test")


def given(settings: EvaluateConfig) -> dict[str, Any]:
    """Search settings that are not those of the model."""
    return {key: value for key, value in asdict(settings.decode).items() if value is not None}


@pytest.mark.parametrize("name", [name for group, name in GROUPS if group == "decode"])
def test_evaluation_changes_the_search_settings_that_are_given(name):
    assert given(composed("bundle=x", name="evaluate")) == {}
    assert given(composed(f"decode={name}", "bundle=x", name="evaluate")) == written("decode", name)
    changed = composed("decode=sample", "decode.top_k=4", "bundle=x", name="evaluate")
    assert given(changed) == {**written("decode", "sample"), "top_k": 4}


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("decode.baem=4", r"there is no setting 'decode\.baem': did you mean 'decode\.beam'"),
        ("beam=4", r"there is no setting 'beam': did you mean 'decode\.beam'\?"),
        ("decode.beam=x", r"decode\.beam=x: give a whole number"),
        ("decode=greddy", r"decode=greddy is not known: did you mean 'greedy'"),
    ],
)
def test_search_settings_that_evaluation_does_not_know_are_refused_with_a_hint(override, why):
    assert re.match(why, explained(override, name="evaluate"))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("base", (512, 2048, 8, 6, 6, 0.1)),
        ("big", (1024, 4096, 16, 6, 6, 0.3)),
        ("big_enfr", (1024, 4096, 16, 6, 6, 0.1)),
    ],
)
def test_models_of_the_paper_have_its_sizes(name, sizes):
    """Table 3 of Vaswani et al. 2017; section 6.1 for English-French."""
    m = composed(f"model={name}").model
    assert (m.d_model, m.d_ff, m.n_heads, m.encoder_layers, m.decoder_layers, m.dropout) == sizes
    assert m.norm == "post"


def test_a_setting_that_members_of_a_mixture_lack_is_refused():
    why = r"there is no setting 'data\.members\.short\.weights'"
    with pytest.raises(ConfigError, match=why) as error:
        composed("data=general", "+data.members.short.weights.x=9")
    assert len(error.value.problems) == 1


def test_the_command_line_wins_over_files():
    settings = composed("experiment=demo", "model.dropout=0.25", "tokenizer.vocab_size=999")
    assert (settings.model.dropout, settings.tokenizer.vocab_size) == (0.25, 999)
    assert settings.model.d_model == 128  # of model/tiny, which the demo is made of


def test_corpora_are_looked_up_in_the_clone_from_anywhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    members = composed("data=starter").data.members
    assert {member.path for member in members.values()} == {str(ROOT / "data" / "starter")}


def test_numbers_may_name_columns_and_lists_files():
    data = composed("data=files", "data.source_column=0", "data.train=[a.en,a.fr]").data
    assert data.source_column == "0"
    assert data.train == ["a.en", "a.fr"]


def test_ddp_takes_as_many_devices_as_torchrun_started(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert composed("trainer=ddp").trainer.devices == 4
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert composed("trainer=ddp").trainer.devices == 1


def test_settings_survive_being_written_and_read_again():
    settings = composed("experiment=demo")
    assert build(TrainConfig, asdict(settings)) == settings


def test_key_names_are_those_of_the_dataclasses():
    keys = set(settings_of(TrainConfig))
    assert {f"model.{field.name}" for field in fields(TransformerConfig)} <= keys
    assert {"seed", "resume", "trainer", "trainer.max_steps"} <= keys
    assert len(keys) == len(list(settings_of(TrainConfig)))


def test_values_that_rows_are_chosen_by_are_text():
    data = composed("data=files", "+data.where.year=[2019,true,0.25,x]").data
    assert data.where == {"year": ["2019", "True", "0.25", "x"]}


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("data.where.year=[2019]", {"year": ["2019"]}),
        ("+data.where.year=[2019]", {"year": ["2019"]}),
        ("data.where={year:['2019']}", {"year": ["2019"]}),
        ("data.members.phrases.where.year=[2019]", {"year": ["2019"]}),
    ],
)
def test_names_of_ones_own_need_no_plus(override, value):
    preset = "data=starter" if "phrases" in override else "data=files"
    _, arguments = read_arguments([preset, override], TrainConfig, "train")
    data = composed(*arguments).data
    corpus = data.members["phrases"] if "phrases" in override else data
    assert corpus.where == value


@pytest.mark.parametrize("own", [None, "mine"])
def test_members_in_a_shared_folder_move_with_it(own, tmp_path):
    write_settings(composed("data=general", "data.path=old"), tmp_path)
    overrides = ["data.path=new", *([f"data.members.help.path={own}"] if own else [])]
    keys = [override.partition("=")[0] for override in overrides]
    data = resumed(compose("data=general", *overrides), keys, str(tmp_path))["data"]
    assert data["path"] == data["members"]["tatoeba"]["path"] == "new"
    assert data["members"]["help"]["path"] == (own or "new")
    assert data["members"]["phrases"]["path"] == str(ROOT / "data/starter")

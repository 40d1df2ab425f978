"""Fine-tuning (`init_from`): start a run from the weights and vocabularies of another model."""

from __future__ import annotations

import logging
from dataclasses import asdict

from seq2seq.bundle.bundle import Bundle, load_bundle
from seq2seq.config import FREE_OF_WEIGHTS, ModelConfig, TrainConfig
from seq2seq.data.vocabularies import given_vocabularies
from seq2seq.errors import RunError

log = logging.getLogger(__name__)


def initial_bundle(config: TrainConfig) -> Bundle:
    """Load the bundle that training starts from, and check that it fits the settings.

    Raises:
        BundleError: there is no such bundle.
        RunError: its sizes, vocabularies or languages differ from the settings.
    """
    bundle = load_bundle(str(config.init_from))
    if differences := model_differences(bundle.model.config, config.model):
        raise RunError(
            f"the weights of init_from={config.init_from} do not fit this model:"
            + "".join(f"\n  - {difference}" for difference in differences)
            + "\nLeave model= and these settings out, and those of the weights are taken"
        )
    given = given_vocabularies(config.tokenizer)
    if given is not None and given.content_hash() != bundle.vocabularies.content_hash():
        raise RunError(
            f"tokenizer.path={config.tokenizer.path} is not the vocabulary of init_from="
            f"{config.init_from}, whose embeddings would belong to other subwords: leave "
            "tokenizer.path out, and its own is taken"
        )
    _check_text(config, bundle)
    return bundle


def model_differences(there: ModelConfig, here: ModelConfig) -> list[str]:
    """List different settings that weights depend on: `model.d_model: 128 there, 512 here`."""
    learned = getattr(here, "positions", None) == "learned"
    # Computed positions have no fixed number, so max_length may differ.
    free = FREE_OF_WEIGHTS if learned else (*FREE_OF_WEIGHTS, "max_length")
    theirs, ours = asdict(there), asdict(here)
    return [
        f"model.{name}: {theirs.get(name, 'none')} there, {ours.get(name, 'none')} here"
        for name in {**theirs, **ours}
        if name not in free and theirs.get(name) != ours.get(name)
    ]


def _check_text(config: TrainConfig, bundle: Bundle) -> None:
    """Refuse another direction of translation; warn if text is normalised in another way."""
    languages = bundle.training.get("config", {}).get("cleaning", {}).get("languages")
    if languages is not None and languages != config.cleaning.languages:
        raise RunError(
            f"init_from={config.init_from} translates {' to '.join(languages)}, and cleaning."
            f"languages={config.cleaning.languages} asks for the other direction: set "
            f"cleaning.languages=[{','.join(languages)}]"
        )
    if bundle.normalise != config.cleaning.steps(0):
        log.warning(
            "init_from=%s was trained on text normalised by %s, and this run normalises by %s: it "
            "must get used to that. To keep its way: 'cleaning.normalise=[%s]'",
            *(config.init_from, bundle.normalise, config.cleaning.steps(0)),
            ",".join(bundle.normalise),
        )

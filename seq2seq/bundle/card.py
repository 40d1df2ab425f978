"""The model card of a bundle: its sizes, its training data and recipe, its scores, its use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from seq2seq import __version__

if TYPE_CHECKING:
    from seq2seq.bundle.bundle import Bundle

LANGUAGES = {"en": "English", "fr": "French"}


HERE = '    translate --model THIS_FOLDER "hello world"'  # how a bundle is used


def model_card(bundle: Bundle, use: str = HERE) -> str:
    """Write the card in Markdown, from the bundle alone; its last paragraph is `use`."""
    made = bundle.training
    data = made.get("config", {}).get("data", {}).get("name", "unknown data")
    scores = [
        f"Scores on the validation split of `{data}`, on detokenised, cased text:",
        "\n".join(_scores(made)) or "- not known",
    ]
    parts = [
        *card_paragraphs(bundle),
        *(() if "imported" in made else scores),  # an imported model has no known scores
        "It translates sentences like those it was trained on; for other text its output may be "
        "fluent and wrong.",
        use,
    ]
    return "\n\n".join(parts) + "\n"


def files(checksums: Mapping[str, str]) -> str:
    """Return the card's section on files, with checksums as `sha256sum --check` reads them."""
    lines = "\n".join(f"    {value}  {name}" for name, value in checksums.items())
    return f"## Files\n\nSHA-256 of what this card is about:\n\n{lines}\n"


def card_paragraphs(bundle: Bundle, version: str = __version__) -> list[str]:
    """Return the paragraphs of every card: title, sizes, training, version of this code."""
    made, sizes = bundle.training, bundle.model.config
    config: Mapping[str, Any] = made.get("config", {})
    direction = " to ".join(LANGUAGES.get(name, name) for name in bundle.languages)
    data = config.get("data", {}).get("name", "unknown data")
    parameters = sum(p.numel() for p in bundle.model.parameters())
    source, target = (f"{size:,}" for size in bundle.model.vocab_sizes)
    subwords = source if bundle.vocabularies.joint else f"{source} + {target}"
    averaged = ", ".join(map(str, made.get("averaged", ())))
    recipe = ", ".join(_recipe(config))
    earlier = ", from the weights of an earlier model," if config.get("init_from") else ""
    history = (
        f"Trained on `{data}` for {_steps(made['step'])}{earlier} with seq2seq {version}; the "
        "settings are in `config.json`."
    )
    if "imported" in made:
        history = f"Made of the model `{made['imported']}` of Hugging Face by seq2seq {version}."
    return [
        f"# {direction}, {sizes.name} ({sizes.architecture})",
        f"{parameters:,} parameters: {sizes.summary()}; {subwords} subwords. {history}",
        *([f"Recipe: {recipe}."] if recipe else []),
        *([f"The weights are an average, of {averaged}."] if averaged else []),
    ]


def _recipe(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of the training recipe that the settings contain."""
    optim, data = config.get("optim"), config.get("data", {})
    if optim:
        peak = "as in the paper" if optim["lr"] is None else f"{optim['lr']:g}"
        name = "Muon and AdamW" if optim.get("optimizer") == "muon" else "AdamW"
        yield f"{name}, learning rate {peak}, {optim['schedule']}"
        yield f"{_steps(optim['warmup_steps'])} of warm-up"
        yield f"label smoothing {optim['label_smoothing']:g}"
        if optim.get("ema"):
            yield f"EMA {optim['ema']:g}"
    if "max_tokens" in data:
        yield f"batches of {data['max_tokens']:,} positions"
    if "model" in config:
        yield f"dropout {config['model']['dropout']:g}"
    if "tokenizer" in config:
        yield f"{config['tokenizer']['kind']} subwords"


def _steps(length: int | str) -> str:
    """Format a length of training in steps; another unit (`2 epochs`) stays as it is."""
    if not str(length).isdecimal():
        return str(length)
    return f"{int(length):,} step{'' if int(length) == 1 else 's'}"


def _scores(made: Mapping[str, Any]) -> Iterator[str]:
    signatures = made.get("signatures", {})
    for name, value in made["scores"].items():
        signature = f" (`{signatures[name]}`)" if signatures.get(name) else ""
        yield f"- {name}: {value:.2f}{signature}"

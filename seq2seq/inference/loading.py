"""From folders to what a translator is made of.

Each engine is imported where it is asked for: torch alone takes longer to load than the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seq2seq.config import DecodeConfig
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.errors import UserError
from seq2seq.inference.engine import Engine


class Loaded(NamedTuple):
    """The parts of a translator; see its arguments."""

    engine: Engine
    vocabularies: Vocabularies
    decode: DecodeConfig
    normalise: list[str]
    normalise_target: list[str]


def load_parts(
    paths: Sequence[str | Path], device: str, engine: str, precision: str, cuda_graphs: bool
) -> Loaded:
    """Read the bundles of these folders, or runs; the first gives what they share.

    Raises:
        BundleError: nothing usable is there, or the vocabularies of several differ.
        UserError: the device, the engine or the precision is not there, or has no CUDA graphs.
    """
    if engine == "ctranslate2":
        if cuda_graphs:
            raise UserError("CUDA graphs are for the engine torch: leave them out")
        return _of_ctranslate2(paths, device, precision)
    if engine != "torch":
        raise UserError(f"engine {engine} is not known: choose torch or ctranslate2")
    return _of_torch(paths, device, precision, cuda_graphs)


def _of_torch(
    paths: Sequence[str | Path], device: str, precision: str, cuda_graphs: bool
) -> Loaded:
    from seq2seq.inference.bundle import load_bundle, require_same_language
    from seq2seq.inference.device import choose_device
    from seq2seq.inference.precision import choose_precision, prepared
    from seq2seq.inference.torch_engine import TorchEngine

    chosen = choose_device(device)
    choose_precision(precision, chosen)  # a mistake is told before anything is read
    bundles = [load_bundle(one, chosen) for one in paths]
    require_same_language(list(zip(map(str, paths), bundles, strict=True)))
    first = bundles[0]
    models = [prepared(one.model, precision) for one in bundles]
    return Loaded(
        TorchEngine(models, first.length_ratio, [one.alignment for one in bundles], cuda_graphs),
        first.vocabularies,
        first.decode,
        first.normalise,
        first.normalise_target,
    )


def _of_ctranslate2(paths: Sequence[str | Path], device: str, precision: str) -> Loaded:
    from seq2seq.inference.ctranslate2_device import choose_device
    from seq2seq.inference.ctranslate2_engine import CTranslate2Engine
    from seq2seq.inference.ctranslate2_folder import exported

    if len(paths) > 1:
        raise UserError(
            f"the engine ctranslate2 runs one model, and {len(paths)} were given: use the "
            "engine torch for their ensemble, or average them"
        )
    choose_device(device, precision)  # a mistake is told before anything is converted
    engine = CTranslate2Engine(exported(Path(paths[0])), device, precision)
    first = engine.bundle
    return Loaded(
        engine, engine.vocabularies, first.decode, first.normalise, first.normalise_target
    )

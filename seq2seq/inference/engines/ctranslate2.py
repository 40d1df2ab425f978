"""The engine ctranslate2: searches a converted model in C++.

Its beam search equals ours: the end mark counts towards the length, a hypothesis ends only if its
end is among the N best candidates of a step, and a sentence is done when N hypotheses have ended
(ours stops earlier only if nothing better can come). Five things differ:

- It removes forbidden tokens before the softmax; we remove them after it. With a rule (prefix,
  banned words, repeated n-grams, a minimum length above one), its search may find another output
  than ours; the score is that of the whole model, by forced decoding.
- It allows padding and start marks, which trained models never produce; they cut an output off.
- An output that the limit of length cuts off takes the place of another hypothesis. So if an output
  did not end, ours may be another one, which ends sooner.
- It returns no probabilities of single tokens, so `Hypothesis.token_log_probs` is empty; `score`
  returns them.
- It draws samples with its own generator, so `decode.seed` does not reproduce them.

`BothEngines` lets torch search where the first three differences can matter.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seq2seq.bundle.config import read_config
from seq2seq.bundle.ctranslate2 import exported, require_ctranslate2, require_layout
from seq2seq.config import DecodeConfig
from seq2seq.cores import usable_cores
from seq2seq.data.batching import Budget, token_batches
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.data.vocabularies import Vocabularies
from seq2seq.decoding.hypothesis import Hypothesis, length_divisor
from seq2seq.decoding.request import IdPair, OutputLimits, Request, check_requests, output_limits
from seq2seq.errors import BundleError, ConfigError, UserError
from seq2seq.inference.engines import Loaded, Progress, device_number

Tokens = tuple[int, ...]
Output = tuple[Tokens, float]  # tokens, with the end mark if there is one; log probability

NO_PENALTY = 1e-10  # at 0 a search stops when the first beam ends, whatever others could become
BATCHES_PER_WORKER = 4  # at least, so that workers do not wait for the longest sentences ...
FEWEST_ROWS = 64  # ... but a batch has so many hypotheses: smaller ones take longer for each
BATCH_TOKENS = 8192  # source positions that are scored at once
BATCH_LOGITS = 2**26  # the same, times the vocabulary: it bounds the memory of one worker


class CTranslate2Engine:
    """An exported model. Threads may share it: each call is independent.

    Args:
        folder: as `bundle/ctranslate2_export.py` wrote it.
        device: auto, cpu or cuda.
        precision: of the arithmetic: auto (as the weights are stored, or the nearest one that this
            device has), float32, float16, bfloat16, int8, ...

    Raises:
        BundleError: the folder is damaged, or of another version.
        UserError: the device or precision is not available, or its memory is too small.
    """

    def __init__(self, folder: Path, device: str = "auto", precision: str = "auto"):
        self.bundle = read_config(folder / "config.json")
        require_layout(folder)
        self.max_length, self.length_ratio = self.bundle.model.max_length, self.bundle.length_ratio
        self.vocabularies = Vocabularies.load(folder)
        self._source = self.vocabularies.source.names()
        self._target = self.vocabularies.target.names()
        self._ids = {name: number for number, name in enumerate(self._target)}
        self._model = _load(folder, device, precision)
        self._workers: int = self._model.num_translators

    def search(
        self, requests: Sequence[Request], config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        """Search as `Engine.search` says, but without the probabilities of single tokens.

        Raises:
            ConfigError: a setting that CTranslate2 does not know.
            RequestError: a request cannot be met.
        """
        refuse_unknown(config)
        limits = [
            output_limits(len(request.source) + 1, config, self.max_length, self.length_ratio)
            for request in requests
        ]
        check_requests(requests, [most for _, most in limits])
        found = self._translated(requests, limits, config, progress)
        unsure: dict[int, list[Tokens]] = {}
        for row, (request, (least, most)) in enumerate(zip(requests, limits, strict=True)):
            ruled = config.no_repeat_ngram or least > 1 or request.prefix or request.banned
            # Drop empty outputs if there are others: forbidding them would change all scores.
            found[row] = [one for one in found[row] if len(one[0]) > least] or found[row]
            allowed = [_allowed(output, most) for output, _ in found[row]]
            if ruled or allowed != [output for output, _ in found[row]]:
                unsure[row] = list(dict.fromkeys(allowed))
        forced = iter(self.score([
            (requests[row].source, _without_end(output))
            for row, outputs in unsure.items() for output in outputs
        ]))  # fmt: skip
        for row, outputs in unsure.items():
            found[row] = [(output, sum(next(forced)[: len(output)])) for output in outputs]
        return [hypotheses(outputs, config) for outputs in found]

    def score(self, pairs: Sequence[IdPair]) -> list[list[float]]:
        if not pairs:
            return []
        found = self._model.score_batch(
            [self._source_tokens(source) for source, _ in pairs],
            [self._tokens(target) for _, target in pairs],
            max_batch_size=max(1, min(BATCH_TOKENS, BATCH_LOGITS // len(self._target))),
            batch_type="tokens",
            max_input_length=0,
        )
        return [result.log_probs for result in found]

    def attention(self, pairs: Sequence[IdPair]) -> list[np.ndarray]:
        """Return the weights (T, S) of the head that the bundle named when it was exported.

        CTranslate2 returns weights only when it decodes, so the target is given as a prefix.
        """
        lengths = np.array([[len(side) + 1 for side in pair] for pair in pairs]).reshape(-1, 2)
        started = []
        for rows in token_batches(lengths, Budget(BATCH_TOKENS)):
            futures = self._model.translate_batch(
                [self._source_tokens(pairs[row][0]) for row in rows],
                [self._tokens(pairs[row][1]) for row in rows],
                beam_size=1,
                max_decoding_length=int(lengths[rows, 1].max()),
                max_input_length=0,
                return_end_token=True,
                return_attention=True,
                asynchronous=True,
            )
            started.append((rows, futures))
        results: list[np.ndarray] = [np.empty(0)] * len(pairs)
        for rows, futures in started:
            for row, future in zip(rows, futures, strict=True):
                results[row] = np.array(future.result().attention[0])[: lengths[row, 1]]
        return results

    def _translated(
        self,
        requests: Sequence[Request],
        limits: Sequence[OutputLimits],
        config: DecodeConfig,
        progress: Progress,
    ) -> list[list[Output]]:
        """Return the outputs for each sentence; sentences with equal rules are searched together.

        All sentences of such a group get the largest of their limits of length.
        """
        groups: dict[Any, list[int]] = defaultdict(list)
        for row, request in enumerate(requests):
            banned = tuple(map(tuple, request.banned))
            # In a group with prefixes, a sentence without one could not end at once.
            groups[limits[row].fewest, bool(request.prefix), banned].append(row)
        started = [
            (rows, self._start([requests[row] for row in rows], least,
                               max(limits[row].most for row in rows), config))
            for (least, *_), rows in groups.items()
        ]  # fmt: skip
        found: list[list[Output]] = [[] for _ in requests]
        for rows, futures in started:
            for row, future in zip(rows, futures, strict=True):
                found[row] = self._outputs(future, config)
                if progress is not None:
                    progress(1)
        return found

    def _start(
        self, requests: Sequence[Request], least: int, most: int, config: DecodeConfig
    ) -> list[Any]:
        """Start to translate sentences with equal rules, sorted, in batches, in the background."""
        first = requests[0]
        sources = [self._source_tokens(one.source) for one in requests]
        share = sum(map(len, sources)) // (self._workers * BATCHES_PER_WORKER)
        rows = min(FEWEST_ROWS // config.width, -(-len(sources) // self._workers))
        fewest = rows * max(map(len, sources))
        futures: list[Any] = self._model.translate_batch(
            sources,
            [self._tokens(one.prefix) for one in requests] if first.prefix else None,
            max_batch_size=max(1, min(config.batch_tokens // config.width, max(share, fewest))),
            batch_type="tokens",
            suppress_sequences=[self._tokens(sequence) for sequence in first.banned],
            min_decoding_length=least if least > 1 else 0,
            max_decoding_length=most,
            max_input_length=0,  # no limit: longer inputs would be cut silently
            no_repeat_ngram_size=config.no_repeat_ngram,
            length_penalty=length_exponent(config),
            return_scores=True,
            return_end_token=True,
            asynchronous=True,
            **self._strategy(config),
        )
        return futures

    def _strategy(self, config: DecodeConfig) -> dict[str, Any]:
        if config.strategy == "beam":
            # The whole beam, since outputs that ended rank before those that the limit cut off.
            return {"beam_size": config.beam, "num_hypotheses": config.beam}
        return {
            "beam_size": 1,
            "num_hypotheses": 1 if config.top_k == 1 else config.width,
            "sampling_topk": min(config.top_k, len(self._target)),  # 0 = all
            "sampling_topp": config.top_p,
            "sampling_temperature": config.temperature,
        }

    def _outputs(self, future: Any, config: DecodeConfig) -> list[Output]:
        """Return the outputs of a sentence's search, with their log probabilities."""
        result, penalty = future.result(), length_exponent(config)
        outputs = [tuple(self._ids[name] for name in names) for names in result.hypotheses]
        scored = zip(outputs, result.scores, strict=True)
        return [(output, score * len(output) ** penalty) for output, score in scored]

    def _source_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._source[i] for i in (*ids, EOS)]

    def _tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._target[i] for i in ids]


def _allowed(output: Tokens, most: int) -> Tokens:
    """Cut an output at a start mark or padding, or at its own limit, which its group may exceed."""
    special = (place for place, token in enumerate(output) if token in (PAD, BOS))
    return output[: min(most, next(special, most))]


def _without_end(output: Tokens) -> Tokens:
    return output[:-1] if output[-1:] == (EOS,) else output


def hypotheses(found: Sequence[Output], config: DecodeConfig) -> list[Hypothesis]:
    """Make hypotheses from the outputs for a sentence, best first."""
    all_of_them = [
        Hypothesis(
            list(_without_end(output)),
            log_prob,
            log_prob / length_divisor(len(output), config),
            output[-1:] == (EOS,),
        )
        for output, log_prob in found
    ]
    all_of_them.sort(key=lambda one: -one.score)
    if config.strategy != "beam":
        return all_of_them
    # An output that the limit cut off counts only if none ended.
    return [one for one in all_of_them if one.finished] or all_of_them[:1]


def length_exponent(config: DecodeConfig) -> float:
    """Return the penalty in CTranslate2's score, log probability / length ** penalty.

    With `average`, our score is the same. Our own formula ranks the hypotheses that ended;
    CTranslate2's score decides only which are the N best if more than N ended, and when it stops.
    """
    return max(NO_PENALTY, config.length_penalty * (config.length_norm != "none"))


def refuse_unknown(config: DecodeConfig) -> None:
    """Raise ConfigError for all settings that CTranslate2 lacks or interprets differently."""
    lacking = []
    if config.strategy != "beam" and config.min_p > 0:
        lacking.append(f"decode.min_p={config.min_p}")
    if config.repetition_penalty != 1:  # CTranslate2 applies its own before the softmax
        lacking.append(f"decode.repetition_penalty={config.repetition_penalty}")
    if lacking:
        instead = "leave it out, or use the engine torch"
        raise ConfigError(*(f"the engine ctranslate2 has no {name}: {instead}" for name in lacking))


def _load(folder: Path, device: str, precision: str) -> Any:
    package = require_ctranslate2()
    kind, index = choose_device(device, precision)
    try:
        return package.Translator(
            str(folder),
            device=kind,
            device_index=index,
            compute_type="default" if precision == "auto" else precision,
            # Several batches with one thread each are faster than one batch with all threads.
            inter_threads=_threads() if kind == "cpu" else 1,
            intra_threads=1,
        )
    except (RuntimeError, ValueError) as error:
        if "out of memory" in str(error):
            raise UserError(
                f"the model {folder} has no room on {kind}:{index} ({error}): use the precision "
                "int8, or the device cpu"
            ) from error
        raise BundleError(
            f"ctranslate2 {package.__version__} cannot read the model {folder}: {error}. It is "
            "damaged, or of a newer version: export it again"
        ) from error


def load(paths: Sequence[str | Path], device: str, precision: str) -> Loaded:
    """Load one model, as `load_engine` says; raise UserError if several are given."""
    if len(paths) > 1:
        raise UserError(
            f"the engine ctranslate2 runs one model, and {len(paths)} were given: use the "
            "engine torch for their ensemble, or average them"
        )
    choose_device(device, precision)  # report a mistake before converting anything
    engine = CTranslate2Engine(exported(Path(paths[0])), device, precision)
    return engine, engine.vocabularies, engine.bundle


def choose_device(name: str, precision: str = "auto") -> tuple[str, int]:
    """Return what `device_number` does; raise UserError if the precision is not fast there."""
    package = require_ctranslate2()
    kind, number = device_number(name, package.get_cuda_device_count(), "ctranslate2")
    known = package.get_supported_compute_types(kind, number)
    if precision != "auto" and precision not in known:
        raise UserError(
            f"precision {precision} is not fast on this {kind} with ctranslate2: choose one of "
            f"auto, {', '.join(sorted(known))}"
        )
    return kind, number


def _threads() -> int:
    """Return the number of threads: OMP_NUM_THREADS if it is set, else one for each core."""
    named = os.environ.get("OMP_NUM_THREADS", "")
    return int(named) if named.isdecimal() and int(named) else usable_cores()

"""Renamed and removed settings: accepted in stored files, refused if a user gives them.

Stored runs, bundles and checkpoints keep the old names; command lines and YAML files must use the
present names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seq2seq.config.checked import flat

RENAMED = {  # old name: present name
    "optim.final_lr": "optim.final_lr_ratio",
    "trainer.on_bad_step": "trainer.on_loss_spike",
    "trainer.spike": "trainer.max_loss_spike",
}
REMOVED = {  # old name: what to do instead
    "trainer.split": "raise trainer.accumulate and lower data.max_tokens by the same factor",
    "trainer.halve_on_oom": "raise trainer.accumulate and lower data.max_tokens when memory is out",
    "optim.r_drop": "plain steps learn more in the same time; init_from=RUN takes over the weights "
    "of a run that used it",
    "decode.coverage": "leave it out, since it lost 2.5 BLEU; decode.length_penalty favours length",
    "decode.groups": "decode.strategy=sample gives translations that differ, a larger beam more",
    "decode.diversity": "decode.strategy=sample gives translations that differ",
    "logger.upload_bundle": "logger.share=all sends the bundle, and curves (the default) does not",
    "data.streaming": "leave it out, since a corpus of any size is prepared on the disk first",
    "data.longest_first": "dry_run=true, which makes a step on the largest batch",
    "model.word_dropout": "model.dropout, or tokenizer.dropout, which varies words; init_from=RUN "
    "takes over the weights of a run that used it",
    **dict.fromkeys(
        ("comet", "comet_command"), "comet-score scores the files that evaluate writes, as "
        "docs/how-to/evaluate.md says",
    ),
    "decode.samples": "decode.n_best is how many samples come back",
}
# Values with which removed settings did nothing; other values affected the result.
OFF = {"data.streaming": False, "data.longest_first": False, "model.word_dropout": 0,
       "optim.r_drop": 0, "decode.coverage": 0, "decode.groups": 1}  # fmt: skip
# The last version that has all removed settings.
LAST_VERSION = "revision a4b07cc (seq2seq 0.1.0)"
# What the code did before a setting existed, if the default of the setting differs from that.
BEFORE = {"cleaning": {"leakage_from": 1}}


def migrated(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Translate stored settings, or some groups of them, to the present names.

    Removed settings are left out, unless they had an effect: then the caller must say so.
    Settings that were added later get the value that keeps the earlier behaviour.

    Args:
        stored: settings by group, such as `{"optim": {"final_lr": 0.1}}`; not changed.
    """
    found = dict(stored)
    for section, settings in stored.items():
        if isinstance(settings, Mapping):
            found[section] = {
                RENAMED.get(f"{section}.{name}", str(name)).removeprefix(f"{section}."): value
                for name, value in settings.items()
                if not _did_nothing(f"{section}.{name}", value)
            }
            found[section] = BEFORE.get(section, {}) | found[section]
    return found


def _did_nothing(key: str, value: Any) -> bool:
    """Tell whether a setting was removed and had no effect on the result."""
    return key in REMOVED and value == OFF.get(key, value)


def removed(settings: Mapping[str, Any]) -> list[str]:
    """List removed settings that affect the result, as typed; `settings` come from `migrated`."""
    used = flat(settings).items()
    return [
        f"{key}={value}"
        for key, value in used
        if key in REMOVED or (key, value) == ("decode.strategy", "mbr")
    ]


def refusal(key: str) -> str | None:
    """Return the message about an old name that a user gives; None for other names."""
    if key in RENAMED:
        return f"{key} is now {RENAMED[key]}"
    if key in REMOVED:
        return f"{key} is gone: {REMOVED[key]}"
    return None

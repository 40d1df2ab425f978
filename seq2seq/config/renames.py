"""Settings that had another name, or are gone: stored runs, bundles and checkpoints have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seq2seq.config.checked import flat

RENAMED = {  # old name: present name
    "optim.final_lr": "optim.final_lr_ratio",
    "trainer.on_bad_step": "trainer.on_loss_spike",
    "trainer.spike": "trainer.max_loss_spike",
}
REMOVED = (
    *("trainer.split", "trainer.halve_on_oom", "optim.r_drop", "decode.coverage", "decode.groups"),
    *("decode.diversity", "decode.samples", "logger.upload_bundle", "data.streaming"),
    *("data.longest_first", "model.word_dropout", "comet", "comet_command"),
)
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
            found[section] = dict(BEFORE.get(section, {}))
            for name, value in settings.items():
                key = f"{section}.{name}"
                if key not in REMOVED or value != OFF.get(key, value):
                    found[section][RENAMED.get(key, key).removeprefix(f"{section}.")] = value
    return found


def removed(settings: Mapping[str, Any]) -> list[str]:
    """List removed settings that affect the result, as typed; `settings` come from `migrated`."""
    used = flat(settings).items()
    return [
        f"{key}={value}"
        for key, value in used
        if key in REMOVED or (key, value) == ("decode.strategy", "mbr")
    ]

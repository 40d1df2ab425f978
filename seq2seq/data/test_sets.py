"""Test sets that sacrebleu knows by name, such as wmt14/full, fetched once into its own folder."""

from __future__ import annotations

import socket
from pathlib import Path

from seq2seq.errors import DataError, nearest

TIMEOUT_SECONDS = 15.0  # without an answer; sacrebleu itself would wait for ever


def sacrebleu_files(name: object, languages: tuple[str, str]) -> tuple[Path, Path]:
    """Return the files of source and reference lines of a test set.

    Raises:
        DataError: sacrebleu does not know the set for these languages, or cannot fetch it.
    """
    from sacrebleu import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    if not isinstance(name, str):
        raise DataError(
            f"data=sacrebleu reads one test set at a time, and {name} is none: name one, such as "
            "data.test=wmt15; evaluate the others by commands of their own"
        )
    pair = "-".join(languages)
    known = [known for known, dataset in DATASETS.items() if pair in dataset.langpairs]
    if name not in known:
        raise DataError(
            f"sacrebleu has no test set {name} of {pair}, the languages of data.source_column "
            f"and data.target_column: {nearest(name, known or DATASETS)}"
        )
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        # All sets begin with these two fields.
        source, reference, *_ = DATASETS[name].get_files(pair)  # type: ignore[no-untyped-call]
        return Path(source), Path(reference)
    except (Exception, SystemExit) as error:  # from many libraries; exit: a wrong checksum
        raise DataError(
            f"the test set {name} of sacrebleu cannot be fetched ({type(error).__name__}: {error})."
            f" Where there is a network, run sacrebleu -t {name} -l {pair} --echo src and copy its "
            f"folder to {SACREBLEU_DIR}; or give files of your own, data=files "
            "data.test=[source.txt,reference.txt]"
        ) from error
    finally:
        socket.setdefaulttimeout(before)

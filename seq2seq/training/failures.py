"""Failures of the machine (full disk, no memory left) as messages that say what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seq2seq.errors import RunError, command_line
from seq2seq.training.hardware import peak_memory, ran_out
from seq2seq.training.trainer import Trainer

DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)


@contextmanager
def plain_failures(run_dir: Path, trainer: Trainer | None = None) -> Iterator[None]:
    """Turn failures of the disk and of memory in the block into messages for the user.

    Args:
        trainer: its steps and validations run in the block; None = no step is made.

    Raises:
        RunError: the disk is full or broken, or memory ran out.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        again = "give the same command again"
        if (run_dir / "config.yaml").exists():
            resume = command_line("train", f"resume={run_dir}")
            again = f"continue from the last checkpoint: {resume}"
        raise RunError(
            f"{error.filename or run_dir}: {error.strerror}. Make room or correct the folder's "
            f"permissions, then {again}"
        ) from error
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        raise RunError(_out_of_memory(run_dir, trainer)) from error


def _out_of_memory(run_dir: Path, trainer: Trainer | None) -> str:
    """Say what a user can do; a trainer without a batch is validating, or has made no step."""
    if trainer is not None and (batch := trainer.batch) is not None:
        sentences, source_length = batch.source.shape
        return (
            f"out of memory with a batch of {sentences} sentences x {source_length} source x "
            f"{batch.labels.size(1)} target tokens (up to "
            f"{peak_memory(trainer.device.type) / 2**30:.1f} GiB taken). For a new run: lower "
            f"data.max_tokens={trainer.max_tokens} and raise trainer.accumulate="
            f"{trainer.config.accumulate} by the same factor, which learns the same; or a "
            "smaller model; or trainer.precision=bf16-mixed"
        )
    if trainer is not None and hasattr(trainer, "validation"):
        decode = trainer.validation.decode
        half = max(1, decode.batch_tokens // 2)
        again = command_line("train", f"resume={run_dir}", f"decode.batch_tokens={half}")
        return (
            "out of memory in a validation, or before the first step. To continue, with half as "
            f"much translated at once: {again}. For a new run: a smaller decode.beam="
            f"{decode.beam}"
        )
    return (
        "out of memory before the first step: a smaller model needs less, and with trainer.compile "
        "so does a smaller data.max_tokens"
    )

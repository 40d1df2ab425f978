"""W&B, online or offline: it never prompts, never hangs, and never makes training fail."""

from __future__ import annotations

import json
import logging
import netrc
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import ParseResult, urlparse

import numpy as np

from seq2seq.config import LoggerConfig
from seq2seq.dashboard import STEP
from seq2seq.trackers import Artifact, Histogram, Media, Picture, Table, Tracker, own_id

log = logging.getLogger(__name__)

BINS = 32  # bins of a histogram
START_TIMEOUT = 20  # seconds to wait for W&B before going offline
FINISH_TIMEOUT = 600  # seconds that uploading may take at the end
OFF = ("offline", "disabled")  # values of WANDB_MODE that send nothing; the third is `online`
DEFAULT_URL = "https://api.wandb.ai"
PORTS = {"https": 443, "http": 80}


class WandbTracker(Tracker):
    """A tracker that logs everything."""

    name = "W&B"

    def __init__(self, run: Any, run_dir: Path, settings: Mapping[str, Any]):
        self.run, self.run_dir = run, run_dir
        self.where = server().netloc + (", once `wandb sync` is run" if run.offline else "")
        run.config.update(settings, allow_val_change=True)

    def log(self, row: Mapping[str, float], step: int) -> None:
        self.run.log({**row, STEP: step})

    def log_media(self, what: str, make: Callable[[], Mapping[str, Media]], step: int) -> None:
        with _staged(self.run_dir):
            shown = {name: _as_wandb(media) for name, media in make().items()}
            self.run.log({**shown, STEP: step})

    def log_artifact(self, kind: str, make: Callable[[], Artifact], used: bool = False) -> None:
        """Log an artifact; W&B makes no new version of it if its files have not changed."""
        with _staged(self.run_dir):
            artifact = _as_artifact(kind, make())
            if used:  # does what `use_artifact` does, which offline runs lack
                self.run._log_artifact(artifact, is_user_created=True, use_after_commit=True)
            else:
                self.run.log_artifact(artifact, aliases=["best"])

    def finish(self, summary: Mapping[str, Any]) -> None:
        try:
            self.run.summary.update({f"result/{name}": value for name, value in summary.items()})
            self.run.finish()
        except Exception as error:  # for example a time-out, if the server is gone
            log.warning(
                "W&B did not end well: %r. To upload what is on the disk: "
                "wandb sync %s/wandb/*run-*",
                *(error, self.run_dir),
            )


@contextmanager
def _staged(run_dir: Path) -> Iterator[None]:
    """While the block runs, let W&B stage uploads in the run's folder, not in the user's home."""
    ours = "WANDB_DATA_DIR" not in os.environ  # otherwise, the user has chosen a place
    if ours:
        os.environ["WANDB_DATA_DIR"] = str((run_dir / "wandb").absolute())
    try:
        yield
    finally:
        if ours:
            del os.environ["WANDB_DATA_DIR"]


def _as_artifact(kind: str, artifact: Artifact) -> Any:
    """Make an artifact of W&B, with the model card as its description.

    An artifact without files gets a file of its facts, so that W&B can tell its versions apart.
    """
    import wandb

    name, facts, folder = artifact
    card = folder / "README.md" if folder is not None else None
    made = wandb.Artifact(
        name, kind, metadata=dict(facts),
        description=card.read_text(encoding="utf-8") if card and card.exists() else None,
    )  # fmt: skip
    if folder is not None:
        made.add_dir(str(folder), skip_cache=True)
        return made
    with made.new_file(f"{kind}.json", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
    return made


def _as_wandb(media: Media) -> Any:
    import wandb

    if isinstance(media, Table):
        rows = [
            [_images([cell])[0] if isinstance(cell, Picture) else cell for cell in row]
            for row in media.rows
        ]
        return wandb.Table([*media.columns], rows)
    if isinstance(media, Histogram):
        return wandb.Histogram(media.values, num_bins=BINS)
    if isinstance(media, str):
        return wandb.Html(media, inject=False)
    return _images(media)


def _images(pictures: Sequence[Picture]) -> list[Any]:
    """Convert pictures; pad them with white to one size, so that W&B shows them in one row."""
    import wandb

    height, width = np.max([picture.pixels.shape[:2] for picture in pictures], axis=0)
    found = []
    for pixels, caption in pictures:
        white = ((0, height - pixels.shape[0]), (0, width - pixels.shape[1]), (0, 0))
        padded = np.pad(pixels, white, constant_values=255)
        found.append(wandb.Image(padded, caption=caption))
    return found


def open_tracker(
    config: LoggerConfig, run_dir: Path, settings: Mapping[str, Any], step: int
) -> Tracker | None:
    """Start a run of W&B, offline if nothing can be sent; None if W&B is disabled or fails."""
    wanted = _choose_mode()
    if wanted == "disabled":
        return None
    for mode in dict.fromkeys((wanted, "offline")):
        try:
            run = _start(config, run_dir, mode)
        except Exception as error:
            log.warning("W&B (%s) did not start: %s", mode, error)
            continue
        if mode == "offline":
            log.info("W&B is offline; to upload: wandb sync %s/wandb/offline-run-*", run_dir)
        return WandbTracker(run, run_dir, settings)
    return None


def _start(config: LoggerConfig, run_dir: Path, mode: str) -> Any:
    import wandb

    run = wandb.init(
        project=config.project,
        group=config.group,
        name=run_dir.name,
        dir=run_dir,
        id=own_id(run_dir, "wandb"),
        resume="allow",  # offline, too: `wandb sync` then adds to what it sent before
        reinit="finish_previous",  # the previous run of a sweep
        mode=mode,  # type: ignore[arg-type]  # a mode of W&B
        settings=wandb.Settings(
            init_timeout=START_TIMEOUT,
            # Without these two, the end of a run waits forever if the server is gone.
            finish_timeout=float(os.environ.get("WANDB_FINISH_TIMEOUT", FINISH_TIMEOUT)),
            finish_timeout_raises=True,
            console="off",
            silent=True,
        ),
    )
    run.define_metric(STEP, hidden=True)
    run.define_metric("*", step_metric=STEP, step_sync=True)
    return run


def _choose_mode() -> str:
    """Choose WANDB_MODE, or online if a key is configured; offline if online would fail.

    W&B itself would ask for a key on the terminal, or wait for a server that does not answer.
    """
    wanted = os.environ.get("WANDB_MODE")
    if wanted in OFF:
        return wanted
    if wanted and wanted != "online":
        log.warning("WANDB_MODE=%s is not known (online, %s): ignored", wanted, ", ".join(OFF))
        del os.environ["WANDB_MODE"]  # else W&B would fail for this value
    why = unavailable()
    if why is None:
        return "online"
    if wanted == "online" or has_key():  # otherwise, the user did not ask for W&B
        log.warning("%s: this run is logged offline", why)
    if _address() is None:
        os.environ.pop("WANDB_BASE_URL", None)  # else W&B would fail for it, offline, too
    return "offline"


def unavailable() -> str | None:
    """Explain why nothing can be sent to W&B from here; None if it can."""
    mode = os.environ.get("WANDB_MODE")
    if mode in OFF:
        return f"WANDB_MODE={mode} keeps all from being sent"
    if (place := _address()) is None:
        url = server().geturl()
        return f"WANDB_BASE_URL={url} is not an address (https://HOST or http://HOST:PORT)"
    if not has_key():
        return "no key is configured (WANDB_API_KEY, wandb login)"
    if os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"):
        return None  # only the proxy can reach the server; W&B's own time-out decides
    try:
        socket.create_connection(place, timeout=5).close()
    except (OSError, ValueError):  # ValueError: the name cannot be that of a host
        return f"{server().netloc} cannot be reached"
    return None


def _address() -> tuple[str, int] | None:
    """Return host and port of the server; None if its address is not valid."""
    url = server()
    with suppress(KeyError, ValueError):  # an unknown scheme; an impossible port
        usual, port = PORTS[url.scheme], url.port
        return (url.hostname, port or usual) if url.hostname else None
    return None


def server() -> ParseResult:
    """Return the server's URL: WANDB_BASE_URL, else that of W&B's settings (`wandb login --host`).

    If W&B cannot read its settings, return W&B's public server.
    """
    url = os.environ.get("WANDB_BASE_URL")
    if not url:
        try:
            import wandb  # loads slowly

            url = wandb.setup().settings.base_url
        except Exception:  # for example wrong settings; `wandb.init` will report them
            url = DEFAULT_URL
    return urlparse(url)


def has_key() -> bool:
    """Tell whether an environment variable or the netrc file has a key for the server."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    url = server()
    hosts = {url.netloc, url.hostname}
    if (url.hostname or "").endswith("coreweave.com"):  # a new name of W&B's public server
        hosts.add(urlparse(DEFAULT_URL).netloc)
    for file in filter(None, (os.environ.get("NETRC"), "~/.netrc", "~/_netrc")):
        with suppress(OSError, netrc.NetrcParseError):
            if hosts & netrc.netrc(Path(file).expanduser()).hosts.keys():
                return True
    return False

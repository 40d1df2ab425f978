"""Whether W&B can be used from here: a key, and a server that answers."""

from __future__ import annotations

import netrc
import os
import socket
from pathlib import Path
from urllib.parse import ParseResult, urlparse

DEFAULT_URL = "https://api.wandb.ai"


def server() -> ParseResult:
    """Where runs go: as WANDB_BASE_URL says, the settings of `wandb login --host`, or W&B."""
    url = os.environ.get("WANDB_BASE_URL")
    if url:
        return urlparse(url)
    try:
        import wandb  # loads slowly

        return urlparse(wandb.setup().settings.base_url)
    except Exception:  # of settings that it does not understand, too: `wandb.init` will say so
        return urlparse(DEFAULT_URL)


def has_key() -> bool:
    """Whether a variable or the netrc file of `wandb login` holds a key for the server."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    url = server()
    hosts = [url.netloc, url.hostname or ""]
    if (url.hostname or "").endswith("coreweave.com"):  # the same server by its new name
        hosts.append(urlparse(DEFAULT_URL).netloc)
    files = (os.environ.get("NETRC"), "~/.netrc", "~/_netrc")
    for file in (Path(name).expanduser() for name in files if name):
        try:
            known = netrc.netrc(file)
        except (OSError, netrc.NetrcParseError):
            continue
        if any(known.authenticators(host) for host in hosts if host):
            return True
    return False


def fault() -> str | None:
    """What is wrong with the address of the server; None if nothing."""
    url = server()
    try:
        if url.scheme in ("http", "https") and url.hostname and url.port != 0:
            return None
    except ValueError:  # of a port that cannot be
        pass
    return f"WANDB_BASE_URL={url.geturl()} is no address (https://HOST or http://HOST:PORT)"


def reachable() -> bool:
    """Whether the server can be connected to; behind a proxy only the proxy knows."""
    if os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"):
        return True  # W&B's own time-out decides
    url = server()
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
        with socket.create_connection((url.hostname or "", port), timeout=5):
            return True
    except (OSError, ValueError):
        return False

"""Whether W&B can be used from here: a key, and a server that answers."""

from __future__ import annotations

import netrc
import os
import socket
from pathlib import Path
from urllib.parse import ParseResult, urlparse


def server() -> ParseResult:
    """Where runs go."""
    return urlparse(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai")


def has_key() -> bool:
    """Whether WANDB_API_KEY or the netrc file of `wandb login` holds a key for the server."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    files = (os.environ.get("NETRC"), "~/.netrc", "~/_netrc")
    for file in (Path(name).expanduser() for name in files if name):
        try:
            if netrc.netrc(file).authenticators(server().hostname or ""):
                return True
        except (OSError, netrc.NetrcParseError):
            continue
    return False


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

"""`seq2seq serve`: translation over HTTP, by APIs that existing clients use, and by a page."""

from __future__ import annotations

import gc
import logging
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from seq2seq.cli.exits import prepare_streams
from seq2seq.cli.model_options import ModelOptions
from seq2seq.cli.options import Command, option
from seq2seq.config.checked import Checked, group
from seq2seq.errors import RunError, install
from seq2seq.inference.engines import PRECISIONS
from seq2seq.serving.limits import Keys, Limits

NEEDED = ("starlette", "uvicorn", "prometheus_client", "pydantic", "python_multipart")


class ServedModels(ModelOptions):
    """The models are --model, else $SEQ2SEQ_MODEL, else the one chosen by `translate --use`, else
    general."""

    model: list[str] = option(
        [], "a run, a bundle, or general; repeat the option to serve several models", "NAME=DIR"
    )
    engine: str = option(
        "auto", "auto: ctranslate2, and torch for requests that only torch can answer",
        choices=tuple(PRECISIONS),
    )  # fmt: skip
    workers: int = option(1, "batches that a model translates at once", "N", at_least=1, at_most=64)


class ServeOptions(Checked, section="option"):
    """Serve models over HTTP: a page for people, the APIs of LibreTranslate and DeepL, and /v1."""

    host: str = option("127.0.0.1", "address to listen on; 0.0.0.0 = all", "ADDRESS")
    port: int = option(5000, "port to listen on; 0 = any free port", "N", at_least=0, at_most=65535)
    api_keys: Path | None = option(
        None, "file with a line for each client: NAME KEY [REQUESTS A MINUTE [CHARACTERS]]; "
        "without it, no key is needed", "FILE",
    )  # fmt: skip
    glossaries: Path | None = option(
        None, "folder that stores glossaries; without it, they are lost when the server stops",
        "DIR",
    )  # fmt: skip
    cors: list[str] = option([], "origin of web pages that may send requests; * = any", "ORIGIN")
    models: ServedModels = group(ServedModels)
    limits: Limits = group(Limits)


COMMAND = Command(
    "seq2seq serve",
    ServeOptions,
    examples="""\
  seq2seq serve                                     then open http://127.0.0.1:5000
  seq2seq serve --port 8080 --engine ctranslate2 --precision int8
  seq2seq serve --model runs/a --model news=runs/b  requests may say which: "model": "news"
  seq2seq serve --host 0.0.0.0 --api-keys keys.txt --rate 600 --glossaries glossaries""",
    notes="""\
The log goes to standard output, one JSON object on each line, and never contains a client's text.
After Ctrl-C or SIGTERM, the server answers waiting requests, then ends.""",
    docs="docs/how-to/serve.md",
)


@COMMAND.main
def main(options: ServeOptions) -> None:
    prepare_streams()
    missing = [name.replace("_", "-") for name in NEEDED if find_spec(name) is None]
    if missing:
        raise RunError(f"serve needs {', '.join(missing)}, which is missing: {install('serve')}")
    from seq2seq.serving.glossaries import Glossaries

    limits, keys = options.limits, Keys(options.api_keys, options.limits.rate)
    glossaries = Glossaries(options.glossaries)
    listener = _listening(options.host, options.port)
    import uvicorn

    from seq2seq.serving.app import make_app
    from seq2seq.serving.models import load
    from seq2seq.serving.routes import JsonHandler

    chosen = options.models
    models = load(chosen.model, chosen.device, chosen.engine, chosen.precision)
    for one in models:
        for translator in (one.quick, one.exact):  # the first text loads what a translator needs
            translator.translate(["Hello, world. It is 10:30."])
        print(f"serve: {one.name} translates {' to '.join(one.languages)}", file=sys.stderr)
    gc.collect()
    gc.freeze()  # loaded objects stay: searching them for garbage doubles the cost of a request
    logging.getLogger("seq2seq.inference").setLevel(logging.CRITICAL)  # its notes quote texts
    log = logging.getLogger("seq2seq.serving")
    log.addHandler(logging.StreamHandler(sys.stdout))
    log.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").addHandler(JsonHandler())
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it quotes damaged forms
    app = make_app(models, limits, keys=keys, glossaries=glossaries, workers=chosen.workers,
                   origins=options.cors)  # fmt: skip
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="on",
        timeout_graceful_shutdown=round(limits.timeout) + 5,
        timeout_keep_alive=75,  # seconds; more than the 60 of usual clients and balancers
    )  # fmt: skip
    address = "{}:{}".format(*listener.getsockname()[:2])
    print(f"serve: open http://{address}", file=sys.stderr, flush=True)
    uvicorn.Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    """Open a socket; its connections wait until the models are loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why = f"cannot listen at {host}:{port} ({error.strerror})"
        raise RunError(f"{why}. Give another --port or --host") from error


if __name__ == "__main__":
    main()

"""`seq2seq COMMAND ...`: all commands by one name."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from seq2seq import __version__
from seq2seq.cli.exits import EXITS, fail, run_command
from seq2seq.errors import ConfigError, nearest

# Each command is the function `main` of a module in this folder.
COMMANDS = {
    "train": "train a model, or resume a run",
    "evaluate": "score a model on a test set, or given translations",
    "translate": "translate texts, files or what you type; also works as translate",
    "serve": "answer over HTTP: a page, the APIs of LibreTranslate and DeepL, and /v1",
    "prepare": "clean a corpus and make its vocabulary, before training",
    "average": "average weights of a run, or of several models",
    "score": "compute how likely a model finds given translations",
    "compare": "compare runs or evaluations, and test whether a difference could be chance",
    "export": "write a model for CTranslate2 or Hugging Face's Transformers library",
    "import": "take a model of Hugging Face, such as OPUS-MT",
    "report": "write a page about a run, for a browser",
    "dashboard": "build the dashboard of a W&B project",
}


def main() -> None:
    run_command(_run)


def _run() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in COMMANDS:
        module = module_of(name)
        # A path, because Lightning starts further processes of a run: `python sys.argv[0] ...`.
        spec = find_spec(module)
        sys.argv = [str(spec.origin if spec else name), *sys.argv[2:]]
        import_module(module).main()
    elif name in ("-h", "--help"):
        print(_help())
    elif name == "--version":
        print(f"seq2seq {__version__}")
    elif name == "--print-completion":
        if (shell := " ".join(sys.argv[2:])) not in ("bash", "zsh"):
            raise ConfigError(f"--print-completion {shell}: name a shell, bash or zsh")
        from seq2seq.cli.completion import completion

        print(completion(shell, COMMANDS, module_of))
    elif not name:
        fail(f"name a command.\n\n{_help()}", ConfigError.exit_code)
    else:
        known = [*COMMANDS, "--help", "--version", "--print-completion"]
        raise ConfigError(f"{name} is not a command of seq2seq: {nearest(name, known)}")


def module_of(command: str) -> str:
    """Return the name of a command's module."""
    return f"seq2seq.cli.{'import_model' if command == 'import' else command}"  # a keyword


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {what}" for name, what in COMMANDS.items())
    return f"""\
usage: seq2seq COMMAND ...

Train, evaluate and run English-French transformers.

examples:
  seq2seq train experiment=demo
  seq2seq evaluate --help
  seq2seq translate "hello world"

commands:
{commands}

options:
  -h, --help                    show this help; for a command: seq2seq COMMAND --help
  --version                     show the version
  --print-completion bash|zsh   print shell completion; to install it:
                                echo 'eval "$(seq2seq --print-completion bash)"' >> ~/.bashrc

{EXITS}

read on: README.md, docs/"""


if __name__ == "__main__":
    main()

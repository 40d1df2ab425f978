"""Serve models over HTTP: python scripts/serve.py --model runs/my-run."""

from seq2seq.cli.serve import main

if __name__ == "__main__":
    main()

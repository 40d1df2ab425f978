"""Train a model: python scripts/train.py [model=base] [data=starter] [name=value ...]."""

from seq2seq.cli.train import main

if __name__ == "__main__":
    main()

"""Prepare a corpus: python scripts/prepare_data.py data=multi30k [name=value ...]."""

from seq2seq.cli.prepare import main

if __name__ == "__main__":
    main()

"""Score a model or translations: python scripts/evaluate.py bundle=FOLDER [name=value ...]."""

from seq2seq.cli.evaluate import main

if __name__ == "__main__":
    main()

"""Take a model of Hugging Face: python scripts/import_model.py Helsinki-NLP/opus-mt-en-fr."""

from seq2seq.cli.import_model import main

if __name__ == "__main__":
    main()

"""Write a model for other programs: python scripts/export.py ctranslate2 FOLDER."""

from seq2seq.cli.export import main

if __name__ == "__main__":
    main()

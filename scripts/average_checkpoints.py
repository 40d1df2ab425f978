"""Average weights: python scripts/average_checkpoints.py run=FOLDER output=FOLDER."""

from seq2seq.cli.average import main

if __name__ == "__main__":
    main()

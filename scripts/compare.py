"""Compare evaluations: python scripts/compare.py runs/a runs/b."""

from seq2seq.cli.compare import main

if __name__ == "__main__":
    main()

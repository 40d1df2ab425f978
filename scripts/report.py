"""Look at a run in a browser: python scripts/report.py runs/NAME."""

from seq2seq.cli.report import main

if __name__ == "__main__":
    main()

"""Look at runs in a browser: python scripts/report.py runs/NAME [runs/OTHER ...]."""

from seq2seq.cli.report import main

if __name__ == "__main__":
    main()

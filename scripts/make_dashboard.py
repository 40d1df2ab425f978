"""Build the dashboard of a W&B project: python scripts/make_dashboard.py --project seq2seq."""

from seq2seq.cli.dashboard import main

if __name__ == "__main__":
    main()

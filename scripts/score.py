"""Score given pairs: python scripts/score.py --model runs/my-run english.txt french.txt."""

from seq2seq.cli.score import main

if __name__ == "__main__":
    main()

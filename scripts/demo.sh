#!/usr/bin/env bash
# `make demo`: the whole way from the built-in corpus to translations, on any machine.
set -euo pipefail
cd "$(dirname "$0")/.."
run=runs/demo-$(date +%Y%m%d-%H%M%S)

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "1/3  training (experiment=demo)"
python scripts/train.py experiment=demo run_dir="$run"
say "2/3  evaluating on sentences that training never saw"
python scripts/evaluate.py model="$run"
say "3/3  translating"
for text in "hello world" "Good evening!" "My sister is reading a book." \
  "We will buy two red apples tomorrow." "He did not see the old house." "I am not hungry."; do
  printf '%s\n' "$text"
done | tee /dev/stderr | translate --model "$run" --quiet
say "done. Try your own:  .venv/bin/translate --model $run \"The cat is sleeping.\""

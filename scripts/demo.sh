#!/usr/bin/env bash
# `make demo`: the whole way from the built-in corpus to translations, on any machine.
set -euo pipefail
cd "$(dirname "$0")/.."
run=runs/demo-$(date +%Y%m%d-%H%M%S)
texts=("hello world" "Good evening!" "My sister is reading a book."
  "We will buy two red apples tomorrow." "He did not see the old house." "I am not hungry.")

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "1/3  training (experiment=demo)"
python scripts/train.py experiment=demo run_dir="$run"
say "2/3  evaluating on sentences that training never saw"
python scripts/evaluate.py bundle="$run"
say "3/3  translating"
paste <(printf '%s\n' "${texts[@]}") <(translate --model "$run" --quiet "${texts[@]}") | expand -t 40
say "done. Try your own:  .venv/bin/translate --model $run \"Where is the museum?\""

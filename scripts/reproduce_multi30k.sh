#!/usr/bin/env bash
# `make reproduce-multi30k [DATA=FOLDER]`: the Multi30k result of the README, beside published ones.
# Started again, it goes on where it was stopped. DATA: the corpus, if it shall not be fetched;
# RUN: the folder of the run.
set -euo pipefail
cd "$(dirname "$0")/.."
run=${RUN:-runs/multi30k}
path=${DATA:+"data.path=$DATA"}

if [ ! -d "$run" ]; then
  python scripts/train.py experiment=multi30k run_dir="$run" ${path:+"$path"}
elif [ ! -e "$run/summary.json" ]; then
  python scripts/train.py resume="$run"
fi
python scripts/evaluate.py bundle="$run" data=multi30k split=test ${path:+"$path"}
python scripts/maintain/results.py "$run"

#!/usr/bin/env bash
# `make release`: builds what is released, checks it, and tries it as a user would. Uploads nothing.
#
#   bash scripts/maintain/release.sh [PYTHON]     of an environment with build and twine
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:-python}
version=$("$python" -c 'import seq2seq; print(seq2seq.__version__)')
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "1/4  version $version"
grep -q "^version: $version\$" CITATION.cff || { echo "error: CITATION.cff has another version" >&2; exit 1; }
grep -q "^## \[$version\]" CHANGELOG.md || { echo "error: CHANGELOG.md has no section [$version]" >&2; exit 1; }

say "2/4  wheel and source archive"
[ ! -e dist ] || { echo "error: dist is there: move it away, so that nothing old is released" >&2; exit 1; }
"$python" -m build --outdir dist ${BUILD_OPTIONS:-}
"$python" -m twine check --strict dist/*

say "3/4  the wheel in an empty environment"
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
"$python" -m venv "$empty/venv"
"$empty/venv/bin/python" -m pip install --disable-pip-version-check -q dist/*.whl
wheel() { (cd "$empty" && env -u PYTHONPATH "$empty/venv/bin/$@"); }
[ "$(wheel translate --quiet "hello world")" = "bonjour le monde" ]
wheel seq2seq train model=tiny debug=fast run_dir="$empty/run"
wheel translate --quiet --model "$empty/run" "hello world" > /dev/null

say "4/4  image"
if command -v docker > /dev/null; then
  docker build -t "seq2seq:$version" .
  [ "$(docker run --rm "seq2seq:$version" translate --quiet "hello world")" = "bonjour le monde" ]
else
  echo "docker is not here: no image"
fi
say "done: dist/ holds $(ls dist | tr '\n' ' ')"

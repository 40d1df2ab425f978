#!/usr/bin/env bash
# `make release`: builds what is released, checks it, and tries it as a user would. Uploads nothing.
#
#   bash scripts/maintain/release.sh [PYTHON]     of an environment with build and twine
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:-python}
version=$("$python" -c 'import seq2seq; print(seq2seq.__version__)')
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
greets() { # greets COMMAND...: the shipped model answers as it should
  local answer
  answer=$("$@" translate --quiet "hello world")
  [ "$answer" = "bonjour le monde" ] || { echo "error: translate said '$answer'" >&2; exit 1; }
}

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
wheel() { (cd "$empty" && env -u PYTHONPATH SEQ2SEQ_CACHE="$empty/cache" "$empty/venv/bin/$@"); }
greets wheel
wheel seq2seq train model=tiny debug=fast run_dir="$empty/run"
wheel translate --quiet --model "$empty/run" "hello world" > /dev/null

say "4/4  image"
if docker info > /dev/null 2>&1; then
  docker build -t "seq2seq:$version" .
  greets docker run --rm "seq2seq:$version"
else
  [ -n "${NO_IMAGE:-}" ] || {
    echo "error: no Docker daemon answers here, so no image was built: start one, or set NO_IMAGE=1" >&2
    exit 1
  }
fi
say "done: dist/ holds $(ls dist | tr '\n' ' ')"

# syntax=docker/dockerfile:1
#
#   docker build -t seq2seq .                          torch for CPUs
#   docker build -t seq2seq:cuda --build-arg TORCH=cuda .
#
#   docker run --rm seq2seq translate "hello world"      # by the model that is shipped
#   mkdir -p runs      # first, or Docker makes it and it belongs to root
#   docker run --init --rm -v "$PWD/runs:/app/runs" seq2seq python scripts/train.py experiment=demo
#   docker run --rm -v "$PWD/runs:/app/runs" seq2seq translate "hello world"
#
#   docker build -t seq2seq-serve --target serve .       the server, docs/how-to/serve.md
#   docker run --init --rm -p 127.0.0.1:5000:5000 seq2seq-serve
#
# podman and buildah build it, too; with --format docker they keep the health check.
#
# With a GPU add --gpus all. If your user id is not 1000, add --user "$(id -u):$(id -g)".
# With data.num_workers above 0 add --ipc=host, since workers share memory.
# `docker stop -t 120` leaves a run the time to save its state.

ARG PYTHON_IMAGE=python:3.13.9-slim-bookworm

# The requirements, read from pyproject.toml. The layers below are rebuilt only when these
# lists change, not at every edit of pyproject.toml.
FROM ${PYTHON_IMAGE} AS requirements
WORKDIR /requirements
COPY pyproject.toml .
RUN python -c "import re, tomllib; \
needs = tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies']; \
torch = [need for need in needs if re.match(r'torch[^\w.-]', need)]; \
assert len(torch) == 1, needs; \
open('torch.txt', 'w').write(torch[0] + '\n'); \
extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; \
open('serve.txt', 'w').write('\n'.join(extras['serve'] + extras['documents'] + extras['ctranslate2']) + '\n'); \
open('others.txt', 'w').write('\n'.join(need for need in needs if need not in torch) + '\n')"

FROM ${PYTHON_IMAGE} AS commands

# torch first: it is the largest layer and changes least. For Linux on x86-64 the wheels of PyPI
# are the CUDA builds, with NVIDIA's libraries as dependencies; CPU builds have their own index.
ARG TORCH=cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
COPY --from=requirements /requirements/torch.txt /requirements/
RUN case "$TORCH" in \
      cpu) pip install --index-url https://download.pytorch.org/whl/cpu -r /requirements/torch.txt ;; \
      cuda) pip install -r /requirements/torch.txt ;; \
      *) echo "TORCH=$TORCH is not known: choose cpu or cuda" >&2; exit 1 ;; \
    esac

COPY --from=requirements /requirements/others.txt /requirements/
RUN pip install -r /requirements/others.txt -c /requirements/torch.txt

# A home and caches that any user id may write, so that --user works too.
ARG UID=1000
RUN useradd --uid "$UID" --user-group --home-dir /home/app --create-home app \
    && install -d -m 1777 /home/app /home/app/.cache /app/runs
ENV HOME=/home/app \
    USER=app \
    XDG_CACHE_HOME=/home/app/.cache \
    HF_HOME=/home/app/.cache/huggingface \
    WANDB_CACHE_DIR=/home/app/.cache/wandb \
    WANDB_CONFIG_DIR=/home/app/.cache/wandb-config \
    WANDB_DATA_DIR=/home/app/.cache/wandb-data \
    PYTHONUNBUFFERED=1

# Editable, so that the scripts and the installed commands run the same files. Only the metadata is
# needed here, so edits of the code do not repeat this step.
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY seq2seq/__init__.py seq2seq/
RUN pip install --no-deps -e .

COPY data data
COPY configs configs
COPY scripts scripts
COPY seq2seq seq2seq

USER ${UID}
CMD ["translate", "--help"]

# The server, with the engine that is quickest on a CPU. `docker stop -t 70` leaves it the time to
# answer what it was asked.
FROM commands AS serve
USER root
COPY --from=requirements /requirements/serve.txt /requirements/
RUN pip install -r /requirements/serve.txt -c /requirements/torch.txt
ARG UID=1000
USER ${UID}
EXPOSE 5000
# Whether it lives: a busy server, whose /readyz says so, is not to be started again.
HEALTHCHECK --start-period=60s CMD ["python", "-c", \
  "import urllib.request as r; r.urlopen('http://127.0.0.1:5000/livez', timeout=5)"]
ENTRYPOINT ["seq2seq", "serve", "--host", "0.0.0.0"]
CMD []

FROM commands

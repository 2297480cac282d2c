# A container for one CPU machine or a node of a cluster:
#   docker build -t ebu . && docker run --rm -v "$PWD:/work" ebu train CartPole-v1
# With CUDA: docker build -t ebu:cuda --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 . && docker run --gpus all …
FROM python:3.12-slim

# PyPI's build of PyTorch for Linux brings CUDA along; this index has the small one.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=classic,box2d,atari,minatar,minigrid,video,ray,tune,share

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1

WORKDIR /opt/ebu
COPY constraints.txt ./
RUN pip install --index-url "${TORCH_INDEX}" "$(grep '^torch==' constraints.txt)"
COPY pyproject.toml README.md LICENSE ./
COPY ebu ./ebu
RUN pip install -c constraints.txt ".[${EXTRAS}]"

# Runs are written to the folder that is mounted at /work; give it to this user, or start with --user "$(id -u)".
RUN useradd --create-home --uid 1000 ebu && mkdir /work && chown ebu /work
USER ebu
WORKDIR /work
ENTRYPOINT ["ebu"]
CMD ["--help"]

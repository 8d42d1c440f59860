# syntax=docker/dockerfile:1
ARG TAG=24.01
FROM nvcr.io/x:${TAG} AS base
ENV A=1 B="two words" \
    # between
    C=${A:-3}
ENV OLD some words
RUN <<EOT
python x.py --lr 1
EOT
FROM base
ENV A=2
RUN --mount=type=cache,target=/x python warm.py --steps 3 && pip install -q x
ENTRYPOINT ["python", "train.py"]
CMD ["--batch-size", "4", \
     "--lr=1e-4", "--bf16"]

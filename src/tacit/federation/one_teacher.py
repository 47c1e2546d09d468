"""The process of one teacher: limits first, then records in, one row of answers out."""

from __future__ import annotations

import io
import os
import pickle
import resource
import sys

import numpy as np


def main() -> None:
    """Train on the shard that standard input holds; write its answers to standard output."""
    seconds, megabytes = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold records
    # What a library prints must not get between the answers, nor onto anybody's screen.
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    teacher, X, y, inputs, n_classes = pickle.load(sys.stdin.buffer)
    from tacit.teachers import predict_with_teachers

    nowhere = np.zeros(len(y), dtype=np.int64)
    (said,) = predict_with_teachers(
        teacher, X, y, nowhere, 1, inputs, n_classes=n_classes, progress=False
    )
    file = io.BytesIO()
    np.save(file, said.astype(np.int64), allow_pickle=False)
    answers.write(file.getvalue())
    answers.close()


if __name__ == "__main__":
    main()

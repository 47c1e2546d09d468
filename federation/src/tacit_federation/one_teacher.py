"""The process of one teacher: limits first, then records in, one row of answers out."""

from __future__ import annotations

import io
import os
import pickle
import resource
import sys
from typing import Any

import numpy as np


def main() -> None:
    """Train on the shard in standard input; write its answers to standard output."""
    seconds, megabytes = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold records
    # What a library prints must not get between the answers, nor onto anybody's screen.
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    said = _answers(*pickle.load(sys.stdin.buffer))
    file = io.BytesIO()
    np.save(file, said, allow_pickle=False)
    answers.write(file.getvalue())
    answers.close()


def _answers(teacher: Any, X: Any, y: Any, inputs: Any, n_classes: int, encode: Any = None) -> Any:
    """Return one row of classes, or the codes of masks."""
    nowhere = np.zeros(len(y), dtype=np.int64)
    if encode is None:
        from tacit.teachers import predict_with_teachers

        told = predict_with_teachers(
            teacher, X, y, nowhere, 1, inputs, n_classes=n_classes, progress=False
        )
        return told[0].astype(np.int64)
    from tacit.masks import segment_with_teachers

    told = segment_with_teachers(
        teacher, X, y, nowhere, 1, inputs, n_classes=n_classes, encode=encode
    )
    return told[0].astype(np.float64)


if __name__ == "__main__":
    main()

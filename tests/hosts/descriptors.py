"""Open file descriptors of this process."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """Fail if a block leaves a descriptor open that it opened.

    A collection of garbage may close other tests' files meanwhile, so one that is missing afterwards is no fault.
    """
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert set(os.listdir("/proc/self/fd")) <= before

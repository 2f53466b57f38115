"""A model for each test."""

import pytest

from simulation.bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()

"""Podman's containers on a processor that counts."""

from collections.abc import Callable

import pytest

from kernel.counted.conftest import COUNTED, EACH_ONCE
from kernel.counted.said import Comparison
from kernel.counted.steps import Stepped, copy, in_steps
from kernel.runtimes import Podman

pytestmark = [*COUNTED, EACH_ONCE, pytest.mark.nightly]


def test_podman_containers_are_counted(podman: Callable[..., Podman], image: str, comparison: Comparison) -> None:
    engine = podman(comparison.installed.write_hooks_d())
    growth = []
    for size in (50, 100):
        name = f"m{size}"
        engine.run(image, in_steps(copy(size)), "-d", f"--name={name}")
        container = Stepped(engine.pid(name))
        container.rest()
        key = engine.inspect(name, "{{.Id}}")
        start = comparison.check(key, f"Podman: has started, before {size} MiB")
        container.step()
        growth.append(comparison.check(key, f"Podman: and copies {size} MiB") - start)
    half, whole = growth
    assert 1.9 < whole / half < 2.1

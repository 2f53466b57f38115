"""Shared colours: distinct for colour-blind eyes, visible on light and dark ground; shared names of domains."""

import itertools
import math

import pytest

from resctrl_hooks.observe.inventory.palette import REST, SERIES, domain_title

# Source: Machado et al. 2009, "A Physiologically-based Model for Simulation of Color Vision Deficiency", severity 1.
EYES = {
    "normal": (1, 0, 0, 0, 1, 0, 0, 0, 1),
    "protan": (0.152, 1.053, -0.205, 0.115, 0.786, 0.099, -0.004, -0.048, 1.052),
    "deutan": (0.367, 0.861, -0.228, 0.280, 0.673, 0.047, -0.012, 0.043, 0.969),
    "tritan": (1.256, -0.077, -0.179, -0.078, 0.931, 0.148, 0.005, 0.691, 0.304),
}
# Source: Ottosson 2020, "A perceptual color space for image processing": linear sRGB to OKLab.
CONES = (0.4122, 0.5363, 0.0514, 0.2119, 0.6807, 0.1074, 0.0883, 0.2817, 0.6300)
LAB = (0.2105, 0.7936, -0.0041, 1.9780, -2.4286, 0.4506, 0.0259, 0.7828, -0.8087)
LEAST = 0.09


def linear(color: str) -> list[float]:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def times(matrix: tuple[float, ...], vector: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(matrix[at : at + 3], vector, strict=True)) for at in (0, 3, 6)]


@pytest.mark.parametrize("eyes", EYES)
def test_two_colors_differ_for_all_eyes(eyes: str) -> None:
    seen = {}
    for color in (*SERIES, REST):
        light = [min(max(one, 0.0), 1.0) for one in times(EYES[eyes], linear(color))]
        seen[color] = times(LAB, [one ** (1 / 3) for one in times(CONES, light)])
    for one, two in itertools.combinations(seen, 2):
        assert math.dist(seen[one], seen[two]) > LEAST, (one, two)


@pytest.mark.parametrize("ground", ["#ffffff", "#14181d"])
def test_colors_stand_out_from_the_ground(ground: str) -> None:
    def luminance(color: str) -> float:
        return times((0.2126, 0.7152, 0.0722) * 3, linear(color))[0] + 0.05

    for color in (*SERIES, REST):
        low, high = sorted((luminance(color), luminance(ground)))
        assert high / low > 1.85, color


def test_domain_has_the_number_of_the_option() -> None:
    titles = {"mon_L3_00": "L3 0", "mon_L3_10": "L3 10", "mon_MB_10": "MB 10", "mon_L3_00/x": "mon_L3_00/x"}
    titles |= {"mon_L3_00/mon_sub_L3_01": "L3 0 part 1", "mon_PERF_PKG_01": "package 1", "worker": "worker"}
    assert {folder: domain_title(folder) for folder in titles} == titles

"""A container's Kubernetes QoS class, CPU request and limit, from its bundle and cgroup."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workload import Workload

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_MILLI = 1000
_SHARES_OF_A_CPU = 1024
_LEAST_SHARES = 2  # the kubelet's value for an empty request (kubernetes, pkg/kubelet/cm, MinShares)
_PERIOD = 100_000  # microseconds, the kernel's own default
_WEIGHT_OF_A_CPU, _LARGEST_WEIGHT = 100, 10_000
_LONGEST_NUMBER = 16


def qos_of(workload: "Workload") -> str:
    """Return a pod's QoS class from its cgroup's name; empty outside the kubelet's pods.

    The kubelet puts pods of the two lower classes below separate cgroups (kubernetes, pkg/kubelet/cm).
    """
    path = workload.pod_cgroup
    if "kubepods" not in path:
        return ""
    if "besteffort" in path:
        return BEST_EFFORT
    return BURSTABLE if "burstable" in path else GUARANTEED


def cpu_request(resources: "dict[str, Any]") -> "tuple[int, int]":
    """Return a container's CPU request and limit in thousandths of a CPU, 0 for none, from ``linux.resources``.

    Requests are given as shares, 1024 for a CPU (kubernetes, MilliCPUToShares). A limit without shares, as with
    ``podman run --cpus``, is also the request; a pod's request of 0 stays 0, since the scheduler counts it so. Without
    shares and quota, cgroup v2's ``cpu.weight`` and ``cpu.max`` in ``unified`` are read; the kernel's default weight
    counts as a CPU, as its default of shares does.
    """
    cpu, unified = (found if isinstance(found := resources.get(name), dict) else {} for name in ("cpu", "unified"))
    shares, quota, period = (_number(cpu.get(name)) for name in ("shares", "quota", "period"))
    if not quota:
        most, _, of = str(unified.get("cpu.max", "")).partition(" ")
        quota, period = _parsed(most), _parsed(of)
    limit = max(quota, 0) * _MILLI // (period if period > 0 else _PERIOD)
    if shares:
        # Shares are rounded down, so the request is the smallest one with this number of shares.
        return -(-shares * _MILLI // _SHARES_OF_A_CPU) if shares > _LEAST_SHARES else 0, limit
    weight = _parsed(str(unified.get("cpu.weight", "")))
    request = weight * _MILLI // _WEIGHT_OF_A_CPU if weight <= _LARGEST_WEIGHT else 0
    return request or limit, limit


def _parsed(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _LONGEST_NUMBER else 0


def _number(value: "Any") -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53 else 0

"""Conversion of a configuration of NRI's balloons policy to the ``placement`` section.

Each of its keys is in one of the tables below: those with a key here, those with their own rule, and those without a
counterpart. Source: nri-plugins, pkg/apis/config/v1alpha1/resmgr/policy/balloons/config.go.
"""

from dataclasses import replace
from typing import Any

from .check import check_text
from .cpu_classes import CpuClass
from .document import Document
from .problems import Problem, at
from .section import KeyPath, by_key

_POLICY = {"pinMemory": "pinMemory", "idleCPUClass": "idleCpuClass", "turboDomain": "turboDomain"}
_OWN_RULE = (
    "allocatorTopologyBalancing",
    "preferSpreadOnPhysicalCores",
    "balloonTypes",
    "cpuClasses",
    "pinCPU",
    "reservedPoolNamespaces",
    "reservedResources",
)
_NO_POLICY = {
    "agent": "",
    "availableResources": "leave CPUs to the system with reservedCpus",
    "control": "declare classes in cpuClasses, rdt and blockio",
    "controllableInterrupts": "",
    "instrumentation": "see docs/metrics.md",
    "loadClasses": "",
    "log": "see `log` in docs/configuration-reference.md",
    "preserve": "exclude namespaces with placement.namespaces, or use the annotation cpu.preserve",
    "schedulingClasses": "declare them in scheduling.classes",
    "showContainersInNrt": "",
}
_POOL = {
    "name": "name",
    "namespaces": "namespaces",
    "matchExpressions": "matchExpressions",
    "minCPUs": "minCpus",
    "maxCPUs": "maxCpus",
    "minBalloons": "minInstances",
    "maxBalloons": "maxInstances",
    "groupBy": "instancePer",
    "allocatorTopologyBalancing": "spread",
    "preferSpreadOnPhysicalCores": "spreadCores",
    "shareIdleCPUsInSame": "shareIdleCpus",
    "hideHyperthreads": "hideHyperthreads",
    "preferIsolCpus": "preferIsolCpus",
    "cpuClass": "cpuClass",
    "irqMode": "irqMode",
}
_PER = {"preferPerNamespaceBalloon": "namespace", "preferNewBalloons": "pod"}
"""A new balloon is for a pod: containers of a pod share one, unless `_SPREAD_PODS` is set too."""
_SPREAD_PODS = "preferSpreadingPods"
_NO_POOL = {
    "allocatorPriority": "pools are served in the order of the list",
    "components": "",
    "componentCreation": "",
    "irqClaim": "",
    "loads": "",
    "memoryTypes": "use `mems` of the pool, or the annotation memory-type",
    "pinMemory": "use placement.pinMemory, or the annotation memory.preserve",
    "preferCloseToDevices": "an instance is near the devices of its first container",
    "preferCoreType": "list the CPUs in `cpus` of the pool",
    _SPREAD_PODS: "use `instancePer: container`",
    "schedulingClass": "use scheduling.defaults, or an annotation",
    "showContainersInNrt": "",
}
_NO_VALUES: dict[str, tuple[Any, ...]] = {
    "irqMode": ("sink",),
    "maxCPUs": (-1,),
    "shareIdleCPUsInSame": ("l2cache", "thread"),
}
_BUILT_IN = ("default", "reserved")


class Conversion:
    """A converted file: the ``placement`` section, and a problem for each key or value that it lacks."""

    def __init__(self, document: Document) -> None:
        self.problems: list[Problem] = []
        self._document = document
        value = document.value
        self._at: KeyPath = ()
        for key in ("spec", "config"):  # of a custom resource, and of Helm's values
            if isinstance(value, dict) and isinstance(value.get(key), dict):
                value, self._at = value[key], (key,)
                break
        self.placement: dict[str, Any] = {"enabled": True, "policy": "pools"}
        if not isinstance(value, dict):
            self._note((), "this is not a configuration of the balloons policy", severity="error")
            return
        self._convert(value)
        if not self.placement.get("pools"):
            self.placement.pop("policy")

    def _note(self, path: KeyPath, what: str, right: str = "", *, severity: Any = "warning") -> None:
        self.problems.append(at((*self._at, *path), self._document, what, right, severity))

    def _without(self, path: KeyPath, known: dict[str, str], value: Any) -> None:
        """Name a key that is not converted, unless its value changes nothing."""
        name = path[-1]
        if name in known and value in (None, False, "", [], {}):
            return
        what = "has no counterpart here" if name in known else "unknown key of the balloons policy"
        self._note(path, what, known.get(str(name), ""))

    def _convert(self, policy: dict[str, Any]) -> None:
        for key, value in policy.items():
            if key in _POLICY:
                self.placement[_POLICY[key]] = value
            elif key not in _OWN_RULE:
                self._without((key,), _NO_POLICY, value)
        if policy.get("pinCPU") is False:
            self._note(("pinCPU",), "placement always sets CPUs", "set placement.enabled to false")
        self.placement["reservedNamespaces"] = ["kube-system"]
        for name in policy.get("reservedPoolNamespaces") or []:
            if name not in self.placement["reservedNamespaces"]:
                self.placement["reservedNamespaces"].append(name)
        self._reserve(policy.get("reservedResources") or {})
        self._convert_classes(policy.get("cpuClasses") or [])
        for place, balloon in enumerate(policy.get("balloonTypes") or []):
            self._convert_balloon(place, balloon if isinstance(balloon, dict) else {}, policy)

    def _reserve(self, resources: Any) -> None:
        for name, value in resources.items() if isinstance(resources, dict) else ():
            kind, colon, cpus = str(value).partition(":")
            if name == "cpu" and colon and kind == "cpuset":
                self.placement["reservedCpus"] = cpus
            else:
                right = "write the CPUs in reservedCpus" if name == "cpu" else ""
                self._note(("reservedResources", name), f"{value!r} has no counterpart here", right)

    def _convert_classes(self, classes: list[Any]) -> None:
        known = by_key(CpuClass)
        for place, one in enumerate(classes):
            for key, value in one.items() if isinstance(one, dict) else ():
                if key not in known:
                    self._without(("cpuClasses", place, key), {key: ""}, value)
            kept = {key: value for key, value in one.items() if key in known} if isinstance(one, dict) else one
            self.placement.setdefault("cpuClasses", []).append(kept)

    def _convert_balloon(self, place: int, balloon: dict[str, Any], policy: dict[str, Any]) -> None:
        built_in = balloon.get("name") in _BUILT_IN
        pool: dict[str, Any] = {}
        for key, value in balloon.items():
            path = "balloonTypes", place, key
            if built_in:
                self._convert_built_in(path, balloon["name"], value)
            elif key in _POOL and value in _NO_VALUES.get(key, ()):
                self._note(path, f"{value!r} has no counterpart here")
            elif key in _POOL:
                pool[_POOL[key]] = None if value == "" else value
            elif key not in _PER and not (key == _SPREAD_PODS and value is True and balloon.get("preferNewBalloons")):
                self._without(path, _NO_POOL, value)
        if built_in:
            return
        for key, per in _PER.items():
            if balloon.get(key) and not pool.get("instancePer"):
                pool["instancePer"] = "container" if per == "pod" and balloon.get(_SPREAD_PODS) is True else per
            elif balloon.get(key):
                self._note(("balloonTypes", place, key), f"instances are already per {pool['instancePer']}")
        for key in ("allocatorTopologyBalancing", "preferSpreadOnPhysicalCores"):
            pool.setdefault(_POOL[key], policy.get(key))
        pool.setdefault("maxInstances", 0)  # the policy has no limit by default
        pool = {key: value for key, value in pool.items() if value is not None and value is not False}
        self.placement.setdefault("pools", []).append(pool)

    def _convert_built_in(self, path: KeyPath, name: str, value: Any) -> None:
        key = path[-1]
        if key == "namespaces" and name == "reserved":
            self.placement["reservedNamespaces"] += [one for one in value if isinstance(one, str)]
        elif key not in ("name", "namespaces") or (key == "namespaces" and value != ["*"]):
            cpus = "all CPUs that no pool uses" if name == "default" else "reservedCpus"
            self._without(path, {str(key): f"its containers share {cpus}"}, value)

    def check(self, text: bytes) -> None:
        """Add the errors of the result, which is the configuration ``text``."""
        self.problems += [replace(problem, line=0) for problem in check_text(text, self._document.path).errors]

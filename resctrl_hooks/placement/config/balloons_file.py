"""Conversion of a configuration of NRI's balloons or topology-aware policy to the ``placement`` section.

Each key of balloons is in one of the tables below: those with a key here, those with their own rule, and those without
a counterpart. Source: nri-plugins, pkg/apis/config/v1alpha1/resmgr/policy/balloons/config.go.
"""

import re
from typing import Any

from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.config.document import Document
from resctrl_hooks.core.config.problems import Problem
from resctrl_hooks.core.config.section import KeyPath, by_key

from .cpu_classes import CpuClass
from .policy_source import BALLOONS, TOPOLOGY_AWARE, Policy, find_policy, fold
from .topology_aware_file import NO_EFFECT, OWN_RULE, WITHOUT, settings_of

_POLICY = {"pinMemory": "pinMemory", "idleCPUClass": "idleCpuClass", "turboDomain": "turboDomain"}
_OWN_RULE = (
    "allocatorTopologyBalancing",
    "preferSpreadOnPhysicalCores",
    "balloonTypes",
    "control",
    "cpuClasses",
    "pinCPU",
    "reservedPoolNamespaces",
    "reservedResources",
)
_NO_POLICY = {
    "agent": "",
    "availableResources": "leave CPUs to the system with reservedCpus",
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
_PLACES = {**_POLICY, "reservedPoolNamespaces": "reservedNamespaces", "reservedResources": "reservedCpus"}
_RESULT = re.compile(r"placement\.(?P<section>\w+)(\[(?P<number>\d+)\])?(\.(?P<name>\w+))?")
_KEYS = {
    BALLOONS: frozenset((*_POLICY, *_OWN_RULE, *_NO_POLICY)),
    TOPOLOGY_AWARE: frozenset((*OWN_RULE, *WITHOUT)),
}
_BALLOON_KEYS = (*_POOL, *_PER, *_NO_POOL)


class Conversion:
    """A converted file: the ``placement`` section, and a problem for each key or value that it lacks."""

    def __init__(self, document: Document) -> None:
        self.problems: list[Problem] = []
        self.placement: dict[str, Any] = {}
        self._places: dict[int, int] = {}  # of each pool in the file
        self._document = document
        found = find_policy(document, _KEYS)
        if isinstance(found, Problem):
            self.problems.append(found)
            return
        self._policy: Policy = found
        self.problems += found.problems
        self.placement = {"enabled": True, "policy": "pools" if found.name == BALLOONS else TOPOLOGY_AWARE}
        policy = fold(found.part.value, _KEYS[found.name]) if found.folded else found.part.value
        for key, part in found.elsewhere.items():
            resources = part.below(key)
            policy[key] = {name.lower(): value for name, value in resources.value.items()} if resources else {}
        self._convert_common(policy)
        if found.name == BALLOONS:
            self._convert_balloons(policy)
        else:
            self.placement |= settings_of(policy)
        self._drop_unknown_classes()

    def _note(self, path: KeyPath, what: str, right: str = "", *, severity: Any = "warning") -> None:
        self.problems.append(self._policy.problem(path, what, right, severity))

    def _items(self, path: KeyPath, value: Any) -> list[Any]:
        """Return the items of a list; another value is an error."""
        if value is not None and not isinstance(value, list):
            self._note(path, "should be a list", severity="error")
        return value if isinstance(value, list) else []

    def _without(self, path: KeyPath, known: dict[str, str], value: Any) -> None:
        """Name a key that is not converted, unless its value changes nothing."""
        name = path[-1]
        if name in known and value in (None, False, "", [], {}):
            return
        what = "has no counterpart here" if name in known else f"unknown key of the {self._policy.name} policy"
        self._note(path, what, known.get(str(name), ""))

    def _convert_common(self, policy: dict[str, Any]) -> None:
        """Convert the keys of both policies."""
        balloons = self._policy.name == BALLOONS
        without = _NO_POLICY if balloons else WITHOUT
        for key, value in policy.items():
            if key in (_POLICY if balloons else ()):
                self.placement[_POLICY[key]] = value
            elif key not in (_OWN_RULE if balloons else OWN_RULE) and value not in NO_EFFECT.get(key, ()):
                self._without((key,), without, value)
        for key, what in (("pinCPU", "placement always sets CPUs"), ("colocatePods", "a pod's containers are near")):
            if policy.get(key) is False and key in _KEYS[self._policy.name]:
                self._note((key,), what, "set placement.enabled to false" if key == "pinCPU" else "")
        self.placement["reservedNamespaces"] = ["kube-system"]
        for name in self._items(("reservedPoolNamespaces",), policy.get("reservedPoolNamespaces")):
            if name not in self.placement["reservedNamespaces"]:
                self.placement["reservedNamespaces"].append(name)
        self._reserve(policy.get("reservedResources") or {})
        self._convert_classes(self._items(("cpuClasses",), policy.get("cpuClasses")))
        self._convert_declared_classes()
        control = policy.get("control")
        for key, value in control.items() if isinstance(control, dict) else ():
            disabled = isinstance(value, dict) and value.get("enable") is False
            if key != "cpu" and value and not disabled:
                self._note(("control", key), "has no counterpart in `placement`", f"declare classes in {key}")

    def _convert_balloons(self, policy: dict[str, Any]) -> None:
        for place, balloon in enumerate(self._items(("balloonTypes",), policy.get("balloonTypes"))):
            one = fold(balloon, _BALLOON_KEYS) if self._policy.folded else balloon
            self._convert_balloon(place, one if isinstance(one, dict) else {}, policy)
        if not self.placement.get("pools"):
            self.placement.pop("policy")

    def _convert_declared_classes(self) -> None:
        """Convert the classes that are declared beside the policy; zero means no value there."""
        part = self._policy.classes
        known = by_key(CpuClass)
        have = [one.get("name") for one in self.placement.get("cpuClasses", []) if isinstance(one, dict)]
        for name, values in part.value.items() if part is not None else ():
            if name in have or part is None:
                continue
            one: dict[str, Any] = {"name": name}
            for key, value in (fold(values, known) if isinstance(values, dict) else {}).items():
                if key not in known:
                    self.problems.append(part.problem((name, key), "has no counterpart here"))
                elif value not in (0, "", [], None):
                    one[key] = value
            self.placement.setdefault("cpuClasses", []).append(one)

    def _drop_unknown_classes(self) -> None:
        """Drop references to CPU classes that the file does not declare: they are declared elsewhere, or nowhere."""
        known = [one.get("name") for one in self.placement.get("cpuClasses", []) if isinstance(one, dict)]
        places: list[tuple[dict[str, Any], str, KeyPath]] = [(self.placement, "idleCpuClass", ("idleCPUClass",))]
        places += [
            (pool, "cpuClass", ("balloonTypes", self._places[id(pool)], "cpuClass"))
            for pool in self.placement.get("pools", [])
        ]
        for holder, key, path in places:
            name = holder.get(key)
            if name and name not in known:
                right = "declare it in placement.cpuClasses and set it again"
                self._note(path, f"CPU class {name!r} is not declared in this file; left out", right)
            if not name or name not in known:
                holder.pop(key, None)

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
            known_values = {key: value for key, value in one.items() if key in known} if isinstance(one, dict) else one
            self.placement.setdefault("cpuClasses", []).append(known_values)

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
        self._places[id(pool)] = place

    def _convert_built_in(self, path: KeyPath, name: str, value: Any) -> None:
        key = path[-1]
        if key == "namespaces" and name == "reserved":
            self.placement["reservedNamespaces"] += self._items(path, value)
        elif key not in ("name", "namespaces") or (key == "namespaces" and value != ["*"]):
            cpus = "all CPUs that no pool uses" if name == "default" else "reservedCpus"
            self._without(path, {str(key): f"its containers share {cpus}"}, value)

    def check(self, text: bytes) -> None:
        """Add the errors of the result, which is the configuration ``text``, at their places in the file."""
        for problem in check_text(text, self._document.path).errors:
            self._note(self._source(problem.key), problem.what, problem.right, severity="error")

    def _source(self, key: str) -> KeyPath:
        """Return the place in the file of a key of the result; the nearest one that is known."""
        found = _RESULT.match(key)
        if found is None:
            return ()
        section, number, name = found["section"], int(found["number"] or 0), found["name"]
        if section == "pools":
            pools = self.placement.get("pools") or []
            place = self._places[id(pools[number])] if number < len(pools) else 0
            own = next((one for one, ours in _POOL.items() if ours == name), "")
            return ("balloonTypes", place, own) if own else ("balloonTypes", place)
        if section == "cpuClasses":
            return ("cpuClasses", number, name) if name else ("cpuClasses", number)
        own = next((one for one, ours in _PLACES.items() if ours == section), "")
        return (own,) if own else ()

"""The keys of the topology-aware policy, and their counterparts in the ``placement`` section.

Source: nri-plugins, pkg/apis/config/v1alpha1/resmgr/policy/topologyaware/config.go.
"""

from typing import Any

OWN_RULE = (
    "colocatePods",
    "control",
    "cpuClasses",
    "pinCPU",
    "pinMemory",
    "preferIsolatedCPUs",
    "preferSharedCPUs",
    "reservedPoolNamespaces",
    "reservedResources",
)
WITHOUT = {
    "agent": "",
    "availableResources": "leave CPUs to the system with reservedCpus",
    "colocateNamespaces": "",
    "controllableInterrupts": "",
    "defaultCPUPriority": "",
    "defaultExclusiveCPUClass": "use the annotation cpu-class, or the class `default`",
    "instrumentation": "see docs/metrics.md",
    "log": "see `log` in docs/configuration-reference.md",
    "namespaceSchedulingClasses": "use scheduling.defaults",
    "podQoSSchedulingClasses": "use scheduling.defaults",
    "reservedPoolCPUClass": "",
    "schedulingClasses": "declare them in scheduling.classes",
    "sharedPoolCPUClass": "use the class `default`",
    "unlimitedBurstable": "use the annotation unlimited-burstable",
}
NO_EFFECT: dict[str, tuple[Any, ...]] = {"controllableInterrupts": (["*"],), "defaultCPUPriority": ("none",)}
"""Values of these keys that change nothing."""


def settings_of(policy: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for a policy's keys with the policy's defaults."""
    found: dict[str, Any] = {}
    if policy.get("pinMemory") is not None:
        found["pinMemory"] = policy["pinMemory"]
    isolated = policy.get("preferIsolatedCPUs")
    found["preferIsolCpus"] = True if isolated is None else isolated
    if policy.get("preferSharedCPUs") is not True:
        found["allow"] = {"*": ["exclusive"]}  # Guaranteed containers get exclusive CPUs
    return found

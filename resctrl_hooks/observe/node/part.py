"""What the node code of observe adds to core's."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.part import NodePart

PART: "NodePart" = {
    "keys": {
        "rdt": {
            # Only the guard's own process reads this section.
            "guard": {"mode": "off", "protect": [], "throttle": {}, "high": 0.85, "low": 0.70, "interval": 1.0},
        },
        "slowdown": {
            "enabled": "auto",
            "pods": 32,
            "perf": True,
            "watch": [],
            "experiment": [],
            "limit": ["*"],
            "directory": "/var/lib/resctrl-hooks",
        },
        # Times in seconds, the size in bytes. `keep.samples` is the age at which samples become a row per minute.
        "history": {
            "enabled": False,
            "file": "/var/lib/resctrl-hooks/history.sqlite",
            "interval": 10.0,
            "keep": {"samples": 86_400.0, "minutes": 30 * 86_400.0},
            "size": 256 << 20,
        },
        "events": False,
    },
    "commands": {"guard": "observe.node.sampler.command:guard_command"},
    "values": {
        "guard": ("the bandwidth guard", "guard-lease.json", "observe.node.guard.recovery:restore_ended"),
        "temporary": (
            "an experiment or `limit`",
            "temporary-values.json",
            "observe.node.temporary.recovery:restore_ended",
        ),
    },
    "always": ("temporary",),
    "files": {"slowdown": ("directory", "baselines.json")},
}

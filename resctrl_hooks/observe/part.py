"""What the house adds to the project."""

from typing import Final

from resctrl_hooks.core.parts import Addition, Entry, Keys, Part

PART: Final = Part(
    "observe",
    commands={
        "Look": {
            "top": Entry(
                "resctrl_hooks.observe.cli.top:command",
                "Watch cache, bandwidth and energy per pod.",
                ("top", "top --once --by namespace", "top --at 'yesterday 14:00'"),
                rank=1,
            ),
            "record": Entry(
                "resctrl_hooks.observe.cli.record:command",
                "Record the counters of all pods to a file.",
                ("record --for 10m -o night.csv",),
                rank=3,
            ),
            "report": Entry(
                "resctrl_hooks.observe.cli.report:command",
                "Draw a recording, or the history, as one HTML page.",
                ("report night.csv -o night.html", "report --since 'yesterday 13:00' -o night.html"),
                rank=3,
                has_config=False,
            ),
            "history": Entry(
                "resctrl_hooks.observe.cli.history:command",
                "Show and export the history of this node.",
                ("history status", "history export --since '2h ago' -o two-hours.parquet"),
                rank=3,
            ),
            "metrics": Entry(
                "resctrl_hooks.observe.cli.metrics:command",
                "Write or serve OpenMetrics.",
                ("metrics", "metrics --listen"),
                rank=3,
            ),
            "view": Entry(
                "resctrl_hooks.observe.cli.view:command",
                "Mount the totals of pods as a resctrl tree.",
                ("view /run/resctrl-view",),
                rank=3,
            ),
        },
        "Diagnose": {
            "diagnose": Entry(
                "resctrl_hooks.observe.cli.diagnose:command",
                "Tell which pods are slowed, because of whom, and what helps.",
                ("diagnose", "diagnose shop/web-0 --for 2m", "diagnose shop/web-0 --experiment"),
                rank=1,
            ),
        },
        "Limit": {
            "guard": Entry(
                "resctrl_hooks.observe.cli.guard:command",
                "Limit the bandwidth of RDT classes while memory is full.",
                ("guard status", "guard run", "guard restore"),
            ),
        },
        "Called by the system": {
            "events": Entry(
                "resctrl_hooks.observe.cli.events:command",
                "Send Kubernetes Events of slowed and of waiting pods.",
                ("events",),
            ),
        },
    },
    documents="resctrl_hooks.observe.documents:DOCUMENTS",
    units="resctrl_hooks.observe.service:UNITS",
    rooms=("observe/node/",),
    held="resctrl_hooks.observe.inventory.guard:held_values",
    keys=(
        Keys("resctrl_hooks.observe.config.observe:Residents", after="scheduling"),
        Keys("resctrl_hooks.observe.config.observe:Events", after="log"),
        Keys("resctrl_hooks.observe.config.guard:RdtKeys", section="rdt"),
    ),
    additions=(
        Addition(
            "history",
            b"""
# Past samples of all counters, for `top --at` and `report --since`.
history:
  enabled: true
""",
            ("podman",),  # its hosts rarely have a Prometheus
            "Keep a history, for `top --at`. Default: as configured; a new configuration enables it for Podman.",
        ),
    ),
    checks=(
        "resctrl_hooks.observe.doctor.energy:CHECKS",
        "resctrl_hooks.observe.doctor.history:CHECKS",
    ),
    examples={"show": ("show shop/web-0 --rates",)},
    pod_fields=("resctrl_hooks.observe.inventory.slowdown:SLOWDOWN",),
    details=("resctrl_hooks.observe.inventory.show_rates:RATES",),
    clauses={"blind": " (`top` works without it)", "telemetry": "; see `resctrl-hook metrics`"},
    options={
        "list": "resctrl_hooks.observe.cli.pod_options:list_options",
        "show": "resctrl_hooks.observe.cli.pod_options:show_options",
    },
)

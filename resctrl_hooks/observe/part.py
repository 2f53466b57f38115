"""What the house adds to the project."""

from typing import Final

from resctrl_hooks.core.parts import Addition, Entry, Keys, Part

PART: Final = Part(
    "observe",
    commands={
        "top": Entry(
            "Look",
            "Watch cache, bandwidth and energy per pod.",
            ("top", "top --once --by namespace", "top --at 'yesterday 14:00'"),
            rank=1,
        ),
        "record": Entry(
            "Look", "Record the counters of all pods to a file.", ("record --for 10m -o night.csv",), rank=3
        ),
        "report": Entry(
            "Look",
            "Draw a recording, or the history, as one HTML page.",
            ("report night.csv -o night.html", "report --since 'yesterday 13:00' -o night.html"),
            rank=3,
            has_config=False,
        ),
        "history": Entry(
            "Look",
            "Show and export the history of this node.",
            ("history status", "history export --since '2h ago' -o two-hours.parquet"),
            rank=3,
        ),
        "metrics": Entry("Look", "Write or serve OpenMetrics.", ("metrics", "metrics --listen"), rank=3),
        "view": Entry("Look", "Mount the totals of pods as a resctrl tree.", ("view /run/resctrl-view",), rank=3),
        "diagnose": Entry(
            "Diagnose",
            "Find slowed pods, the pods that slow them, and the remedies.",
            (
                "diagnose",
                "diagnose shop/web-0 --for 2m",
                "diagnose shop/web-0 --experiment",
                "diagnose shop/web-0 --apply --for 10m",
            ),
            rank=1,
        ),
        "limit": Entry(
            "Limit",
            "Limit running pods at once, for a time.",
            ("limit batch/reports-0 --cpu 50%", "limit -n batch --cpu-weight 10 --for 2h --dry-run"),
            rank=1,
        ),
        "unlimit": Entry("Limit", "End limits of pods.", ("unlimit batch/reports-0", "unlimit --all"), rank=1),
        "limits": Entry("Limit", "List the limits of pods.", ("limits", "limits -o json"), rank=1),
        "guard": Entry(
            "Limit",
            "Limit the bandwidth of RDT classes while memory is full.",
            ("guard status", "guard run", "guard restore"),
        ),
        "events": Entry(
            "Called by the system", "Send Kubernetes Events of slowed, limited and waiting pods.", ("events",)
        ),
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
    checks=("capacity", "energy", "history", "evidence"),
    examples={"show": ("show shop/web-0 --rates",)},
    pod_fields=(
        "resctrl_hooks.observe.inventory.slowdown:SLOWDOWN",
        "resctrl_hooks.observe.inventory.limited:LIMITED",
    ),
    details=("resctrl_hooks.observe.inventory.show_rates:RATES",),
    clauses={
        "blind": " (`top` works without it)",
        "telemetry": "; see `resctrl-hook metrics`",
        "purpose": "; `top` shows the usage, `diagnose` finds slowed pods and the causes",
    },
    options={
        "list": "resctrl_hooks.observe.cli.pod_options:list_options",
        "show": "resctrl_hooks.observe.cli.pod_options:show_options",
    },
)

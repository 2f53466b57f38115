"""What the house adds to the project."""

from typing import Final

from resctrl_hooks.core.parts import Entry, Part, Rival

PART: Final = Part(
    "core",
    rivals=(
        Rival("memtierd", "memory.high and memory.swap.max", "memory"),
        Rival("memtierd", "memtierds of containers", "memtierd"),
        Rival("memory-qos", "memory.high and memory.swap.max", "memory"),
    ),
    commands={
        "list": Entry("Look", "List pods and their groups, waiting pods first.", ("list", "list -n shop -o wide")),
        "show": Entry("Look", "Show the details of a pod.", ("show shop/web-0",)),
        "explain": Entry(
            "Diagnose",
            "Explain why a pod has no group, or what the hook would do.",
            ("explain shop/web-0", "runc state ID | resctrl-hook explain"),
        ),
        "doctor": Entry(
            "Diagnose",
            "Check this host and report how to fix each problem.",
            ("doctor", "doctor --fix", "doctor -o json"),
            rank=2,
        ),
        "install": Entry(
            "Set up", "Install the hook on this host, or below --root.", ("install --dry-run", "install --runtime crio")
        ),
        "config": Entry(
            "Set up",
            "Check, apply and show the configuration.",
            ("--config my.yaml config check", "config apply --dry-run", "config apply", "config show", "config schema"),
        ),
        "uninstall": Entry("Set up", "Uninstall the hook from this host.", ("uninstall",), rank=2),
        "rdt": Entry("Limit", "Apply and show declared RDT classes.", ("rdt show", "rdt apply --dry-run", "rdt apply")),
        "createRuntime": Entry(
            "Called by the system",
            "Serve an OCI createRuntime hook: state on stdin.",
            ("runc state ID | resctrl-hook createRuntime",),
            command="resctrl_hooks.core.cli.hook:create_runtime",
            hidden=True,
        ),
        "poststop": Entry(
            "Called by the system",
            "Serve an OCI poststop hook: state on stdin.",
            ("runc state ID | resctrl-hook poststop",),
            command="resctrl_hooks.core.cli.hook:poststop",
            hidden=True,
        ),
        "hook": Entry(
            "Called by the system",
            "Serve the stage that the state's status selects.",
            ("runc state ID | resctrl-hook hook",),
            command="resctrl_hooks.core.cli.hook:hook",
            hidden=True,
        ),
        "reconcile": Entry(
            "Called by the system",
            "Update groups and records to match the running containers.",
            ("reconcile --dry-run", "reconcile"),
        ),
        "watch": Entry(
            "Called by the system", "Move processes that enter containers into their pods' groups.", ("watch",)
        ),
    },
    documents="resctrl_hooks.core.cli.schemas:DOCUMENTS",
    units="resctrl_hooks.core.install.units:UNITS",
    checks=(
        "hardware",
        "system",
        "memory",
        "runtimes",
        "versions",
        "self_test",
        "plugins",
        "watch",
        "state",
    ),
)

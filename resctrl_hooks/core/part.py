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
        "Look": {
            "list": Entry(
                "resctrl_hooks.core.cli.list:command",
                "List pods and their groups, waiting pods first.",
                ("list", "list -n shop -o wide"),
            ),
            "show": Entry(
                "resctrl_hooks.core.cli.show:command",
                "Show the details of a pod.",
                ("show shop/web-0",),
            ),
        },
        "Diagnose": {
            "explain": Entry(
                "resctrl_hooks.core.cli.explain:command",
                "Explain why a pod has no group, or what the hook would do.",
                ("explain shop/web-0", "runc state ID | resctrl-hook explain"),
            ),
            "doctor": Entry(
                "resctrl_hooks.core.cli.doctor:command",
                "Check this host and report how to fix each problem.",
                ("doctor", "doctor --fix", "doctor -o json"),
                rank=2,
            ),
        },
        "Set up": {
            "install": Entry(
                "resctrl_hooks.core.cli.install:command",
                "Install the hook on this host, or below --root.",
                ("install --dry-run", "install --runtime crio"),
            ),
            "config": Entry(
                "resctrl_hooks.core.cli.config:command",
                "Check, apply and show the configuration.",
                (
                    "--config my.yaml config check",
                    "config apply --dry-run",
                    "config apply",
                    "config show",
                    "config schema",
                ),
            ),
            "uninstall": Entry(
                "resctrl_hooks.core.cli.uninstall:command", "Uninstall the hook from this host.", ("uninstall",), rank=2
            ),
        },
        "Limit": {
            "rdt": Entry(
                "resctrl_hooks.core.cli.rdt:command",
                "Apply and show declared RDT classes.",
                ("rdt show", "rdt apply --dry-run", "rdt apply"),
            ),
        },
        "Called by the system": {
            "createRuntime": Entry(
                "resctrl_hooks.core.cli.hook:create_runtime",
                "Serve an OCI createRuntime hook: state on stdin.",
                ("runc state ID | resctrl-hook createRuntime",),
            ),
            "poststop": Entry(
                "resctrl_hooks.core.cli.hook:poststop",
                "Serve an OCI poststop hook: state on stdin.",
                ("runc state ID | resctrl-hook poststop",),
            ),
            "hook": Entry(
                "resctrl_hooks.core.cli.hook:hook",
                "Serve the stage that the state's status selects.",
                ("runc state ID | resctrl-hook hook",),
            ),
            "reconcile": Entry(
                "resctrl_hooks.core.cli.reconcile:command",
                "Update groups and records to match the running containers.",
                ("reconcile --dry-run", "reconcile"),
            ),
            "watch": Entry(
                "resctrl_hooks.core.cli.watch:command",
                "Move processes that enter containers into their pods' groups.",
                ("watch",),
            ),
        },
    },
    documents="resctrl_hooks.core.cli.schemas:DOCUMENTS",
    units="resctrl_hooks.core.install.units:UNITS",
    checks=(
        "resctrl_hooks.core.doctor.hardware:CHECKS",
        "resctrl_hooks.core.doctor.owners:CHECKS",
        "resctrl_hooks.core.doctor.system:CHECKS",
        "resctrl_hooks.core.doctor.memory:CHECKS",
        "resctrl_hooks.core.doctor.runtimes:CHECKS",
        "resctrl_hooks.core.doctor.versions:CHECKS",
        "resctrl_hooks.core.doctor.self_test:CHECKS",
        "resctrl_hooks.core.doctor.plugins:CHECKS",
        "resctrl_hooks.core.doctor.watch:CHECKS",
        "resctrl_hooks.core.doctor.state:CHECKS",
        "resctrl_hooks.core.doctor.classes:CHECKS",
    ),
)

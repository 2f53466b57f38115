"""A simulated host whose containers get a stand-in for memtierd."""

import json
from pathlib import Path
from typing import Any

from conftest import ID, POD_CGROUP, Host, crio_annotations, not_none, state

from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd.run_dir import run_folders
from resctrl_hooks.core.node.records import MemberRecord
from resctrl_hooks.core.node.settings import Settings

CLASS = "class.memtierd.nri.io"
TEMPLATE = (
    "policy:\n  name: age\n  config: |\n    cgroups:\n      - $CGROUP2_ABS_PATH\n    stats: $MEMTIERD_SWAP_STATS_PATH\n"
)
STAND_IN = """#!/bin/sh
# the real command line, or nothing
test "$1" = -c && test -z "$2" && test "$3" = -config || { echo "wrong use: $*"; exit 2; }
grep -q '^policy' "$4" || { echo "no policy in $4"; exit 1; }
echo started
exec sleep 1000
"""

FRAMES = "".join(f"main.step{number}(0x1)\n\t/src/memtierd/step.go:{number} +0x1f\n" for number in range(30))
PANIC = "panic: runtime error: index out of range [3] with length 2"


def panics(after: str = "") -> str:
    """Return a stand-in that crashes as the real memtierd does if a tracked process dies at the wrong moment."""
    return f"#!/bin/sh\n{after}\ncat >&2 <<END\n{PANIC}\n\ngoroutine 1 [running]:\n{FRAMES}END\nexit 2\n"


OTHER = "d" * 63 + "2"


def program(path: Path, text: str = STAND_IN) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


class MemtierdHost(Host):
    """A host whose containers of class `track` get a stand-in for memtierd."""

    def __init__(self, host: Host, **section: Any) -> None:
        self.run_dir, binary = host.root / "run/memtierd", program(host.root / "memtierd")
        self.section = {"runDir": str(self.run_dir), "binary": binary, "startSeconds": 0.1, **section}
        super().__init__(host.root)

    def configure(self, template: str = TEMPLATE, **section: Any) -> None:
        classes = [{"name": "track", "memtierdconfig": template}, {"name": "plain"}]
        super().configure(classes=classes, memtierd=self.section | section)

    def start(  # type: ignore[override]
        self, id_: str = ID, pid: int = 100, name: str = "track", *, alone: bool = True, pod: str = "web-0"
    ) -> Any:
        if not (self.proc / str(pid)).exists():
            self.process(pid, f"{POD_CGROUP}/crio-{id_}")
        annotations = crio_annotations(**{CLASS: name, "io.kubernetes.pod.name": pod})
        return self.call(state(id=id_, pid=pid, bundle=self.bundle(), annotations=annotations), alone=alone)

    def stop(self, id_: str = ID, pid: int = 100) -> Any:
        self.end_process(pid)
        return self.call(state(id=id_, status="stopped", pid=0), alone=True)

    def folder(self, id_: str = ID) -> Path:
        return self.run_dir / "shop/web-0/c0" / id_

    def pid(self, id_: str = ID) -> int:
        return int((self.folder(id_) / "memtierd.pid").read_text())

    def supervisor(self) -> int:
        pid: int = json.loads((self.folder() / "memtierd.keeper").read_text())["processes"][0][0]
        return pid

    def record(self) -> MemberRecord:
        ledger = self.context().ledger
        return not_none(ledger.read_member(ledger.key_of(ID), ID))

    def step(self) -> Step:
        steps = [Step.of_record(step) for step in self.record()["steps"]]
        return next(step for step in steps if step.feature == memtierd.NAME)

    def runs(self) -> bool:
        return bool(memtierd.running(self.step(), ID))

    def left(self) -> list[str]:
        return sorted(str(path) for path in self.run_dir.rglob("*"))

    def clean(self) -> None:
        for folder in run_folders(str(self.run_dir)):
            memtierd.end(folder, folder.parts[-1], str(self.cgroup), Settings({}), systemd=False)

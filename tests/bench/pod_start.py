"""What the hook and the NRI plugin add to a container's creation and start, as a kubelet requests them from CRI-O.

    sudo python tests/bench/pod_start.py --image localhost/busybox --floor PATH [--count 12] [--plugin] [--runtime crun]

Run it on a node where ``resctrl-hook install`` has registered the hook, without other pods. It needs the CRI's stubs
(``cri_api_pb2``, made as tests/vm/cri.py makes them) and `sleep` in the image. Each round starts a pod with a container
for each subject, so that all subjects run under the same conditions; the sandbox is not measured. CRI-O selects the
hook by the pod's annotation; the registration of the node is put aside meanwhile. ``--floor`` is a static program that
does nothing, the cheapest hook possible:

    echo 'int main(void) { return 0; }' | cc -O2 -static -x c -o PATH -
"""

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HOOKS = Path("/usr/share/containers/oci/hooks.d")
REGISTRATION = "resctrl-hooks.json"
SUBJECT = "bench.resctrl-hooks.io/subject"
NONE, FLOOR, HOOK, PLUGIN = "no hook", "static C hook that does nothing", "hook", "NRI plugin, no hook"
SHORT = {NONE: "none", FLOOR: "floor", HOOK: "hook", PLUGIN: "plugin"}
"""Values of the annotation, and names of the pods; no hook is registered for the first and the last."""
UNIT = "resctrl-hooks-nri.service"
STATUS = Path("/run/resctrl-hooks/nri.json")
GROUPS = Path("/sys/fs/resctrl/mon_groups")
PATIENCE = 600
HOST_NETWORK = 2
SETTLING = 2.0
"""Seconds until CRI-O has read its hook directory again, and reconcile has finished."""


class Took(NamedTuple):
    """Seconds of the two calls."""

    create: float
    start: float


class Pod:
    """A pod for one subject, behind the runtime's CRI socket."""

    def __init__(self, endpoint: str, image: str, handler: str, subject: str) -> None:
        grpc: Any = importlib.import_module("grpc")
        self._api: Any = importlib.import_module("cri_api_pb2")
        self._service: Any = importlib.import_module("cri_api_pb2_grpc").RuntimeServiceStub(
            grpc.insecure_channel(f"unix://{endpoint}")
        )
        self._image = image
        self.uid = uid = str(uuid.uuid4())
        self._labels = {
            "io.kubernetes.pod.name": subject,
            "io.kubernetes.pod.namespace": "bench",
            "io.kubernetes.pod.uid": uid,
        }
        self._pod = self._api.PodSandboxConfig(
            metadata=self._api.PodSandboxMetadata(name=subject, uid=uid, namespace="bench"),
            log_directory=f"/var/log/pods/bench_{uid}",
            labels=self._labels,
            annotations={SUBJECT: subject},
            linux=self._api.LinuxPodSandboxConfig(
                cgroup_parent=f"kubepods-besteffort-pod{uid.replace('-', '_')}.slice",
                security_context=self._api.LinuxSandboxSecurityContext(
                    namespace_options=self._api.NamespaceOption(network=HOST_NETWORK)
                ),
            ),
        )
        request = self._api.RunPodSandboxRequest(config=self._pod, runtime_handler=handler)
        self._sandbox = self._service.RunPodSandbox(request, timeout=PATIENCE).pod_sandbox_id

    def measure(self) -> Took:
        """Create and start a container."""
        name = f"c{uuid.uuid4().hex[:12]}"
        config = self._api.ContainerConfig(
            metadata=self._api.ContainerMetadata(name=name),
            image=self._api.ImageSpec(image=self._image, user_specified_image=self._image),
            command=["/bin/sleep", "1000"],
            log_path=f"{name}.log",
            labels={**self._labels, "io.kubernetes.container.name": name},
            linux=self._api.LinuxContainerConfig(),
        )
        request = self._api.CreateContainerRequest(
            pod_sandbox_id=self._sandbox, config=config, sandbox_config=self._pod
        )
        begun = time.perf_counter()
        container = self._service.CreateContainer(request, timeout=PATIENCE).container_id
        created = time.perf_counter()
        self._service.StartContainer(self._api.StartContainerRequest(container_id=container), timeout=PATIENCE)
        started = time.perf_counter()
        return Took(created - begun, started - created)

    def end(self) -> None:
        """Remove the pod."""
        self._service.StopPodSandbox(self._api.StopPodSandboxRequest(pod_sandbox_id=self._sandbox), timeout=PATIENCE)
        self._service.RemovePodSandbox(
            self._api.RemovePodSandboxRequest(pod_sandbox_id=self._sandbox), timeout=PATIENCE
        )


def selected(registration: dict[str, Any], subject: str) -> str:
    """Return a registration as JSON that concerns only the containers of one subject."""
    annotations = {f"^{SUBJECT}$".replace(".", r"\."): f"^{subject}$"}
    return json.dumps({**registration, "when": {"annotations": annotations}})


@contextmanager
def registered(floor: str) -> Iterator[None]:
    """Replace the node's registration by one for each subject; put it back at the end."""
    own, aside = HOOKS / REGISTRATION, HOOKS / f"{REGISTRATION}.bench"
    ours = json.loads(own.read_text())
    nothing = {**ours, "hook": {"path": floor, "args": [floor], "timeout": ours["hook"]["timeout"]}}
    texts = {SHORT[HOOK]: selected(ours, SHORT[HOOK]), SHORT[FLOOR]: selected(nothing, SHORT[FLOOR])}
    own.rename(aside)
    paths = [HOOKS / f"bench-{subject}.json" for subject in texts]
    try:
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text)
        time.sleep(SETTLING)
        yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
        aside.rename(own)


@contextmanager
def plugin(*, on: bool) -> Iterator[None]:
    """Run the NRI plugin's unit."""
    if not on:
        yield
        return
    subprocess.run(["systemctl", "start", UNIT], check=True)
    while not json.loads(STATUS.read_text())["connected"]:
        time.sleep(0.1)
    time.sleep(SETTLING)
    try:
        yield
    finally:
        subprocess.run(["systemctl", "stop", UNIT], check=True)


def report(results: dict[str, list[Took]]) -> None:
    """Print the table: medians and minimums in seconds, and ratios to no hook."""
    head = "create, median | create, minimum | create and start, median | minimum | ratio of medians | of minimums"
    print(f"| | {head} |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    sums: dict[str, list[float]] = {subject: [sum(took) for took in found] for subject, found in results.items()}
    summaries: tuple[Callable[[list[float]], float], ...] = (statistics.median, min)
    for subject, found in results.items():
        create = [summary([took.create for took in found]) for summary in summaries]
        both = [summary(sums[subject]) for summary in summaries]
        ratios = [figure / summary(sums[NONE]) for figure, summary in zip(both, summaries, strict=True)]
        cells = [f"{figure:.3f}" for figure in (*create, *both)] + [f"{ratio:.2f}" for ratio in ratios]
        print(f"| {subject} | {' | '.join(cells)} |")


def main() -> None:
    """Measure all subjects alternately and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", default="/run/crio/crio.sock")
    parser.add_argument("--image", required=True)
    parser.add_argument("--runtime", default="", help="the runtime handler, such as crun")
    parser.add_argument("--floor", required=True, help="a static program that does nothing")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--plugin", action="store_true", help="measure the NRI plugin too; its unit must be installed")
    options = parser.parse_args()
    subjects = [NONE, FLOOR, HOOK, *([PLUGIN] if options.plugin else [])]
    results: dict[str, list[Took]] = {subject: [] for subject in subjects}
    with registered(options.floor):
        for number in range(options.count + 1):
            for subject in subjects:
                with plugin(on=subject == PLUGIN):
                    pod = Pod(options.endpoint, options.image, options.runtime, SHORT[subject])
                    try:
                        took = pod.measure()
                        if subject in (HOOK, PLUGIN) and not (GROUPS / pod.uid).is_dir():
                            sys.exit(f"{subject}: pod {pod.uid} has no group; nothing was measured")
                    finally:
                        pod.end()
                if number:  # the first round warms caches
                    results[subject].append(took)
                    print(f"{number} {subject}: {took.create:.3f} {took.start:.3f}", file=sys.stderr, flush=True)
    print(f"{options.count} containers each, alternately, runtime {options.runtime or 'by default'}\n")
    report(results)


if __name__ == "__main__":
    main()

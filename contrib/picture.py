"""The pictures of `top`, `topology` and `kubectl resctrl`: drawn from recorded output, the files beside this one.

To record another one: `resctrl-hook top --once -o json > contrib/top.json`, then `nox -s generate`. A test has the
machine and the containers of the second one; tests/lab/bench/kubectl_scene.py records contrib/kubectl.json.
"""

import io
import json
import re
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_camel
from rich.console import Console, RenderableType
from rich.text import Text

from resctrl_hooks.core.inventory.models import Rmids
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_screen import Screen
from resctrl_hooks.observe.cluster.nodes import Node
from resctrl_hooks.observe.cluster.tables import nodes_table, pods_table
from resctrl_hooks.observe.cluster.usage import PodUsage
from resctrl_hooks.observe.inventory.columns import COLUMNS, value_in
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.inventory.usage_models import Usage

RECORDED = Path(__file__).with_name("top.json")
TOPOLOGY = Path(__file__).with_name("topology.txt")
CLUSTER = RECORDED.with_name("kubectl.json")
_WIDTH, _HEIGHT = 88, 14
_WIDE = 120
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich's drawing loads a font from the internet; the reader's own monospace font serves."""


def _line(item: Usage) -> Line:
    counted = None if item.counted_percent is None else item.counted_percent / 100
    values = {column.key: value_in(item, column) for column in COLUMNS}
    return Line(item.kind, item.name, item.key, values, item.namespace, item.pod, item.rdt_class, counted=counted)


def recorded() -> dict[str, Any]:
    """Return the recorded document; columns that are newer have no value in it."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    fields = [field for one in COLUMNS for field in (one.field, one.share and one.share.field) if field]
    newer = dict.fromkeys(map(to_camel, fields))
    return {**found, "items": [{**newer, **item} for item in found["items"]]}


def scene() -> Scene:
    """Return the recorded measurement as `top` has it."""
    found = recorded()
    lines = [_line(Usage.model_validate(item)) for item in found["items"]]
    rmids = Rmids.model_validate(found["rmids"])
    return Scene(found["host"], found["time"][11:19], lines, found["llcBytes"], rmids, found["waiting"])


def picture() -> bytes:
    """Return the live screen of `top` as SVG."""
    screen = Screen(scene())
    screen.update(scene())
    return _drawn(screen.render(_WIDTH, _HEIGHT), _WIDTH, _HEIGHT, "top")


def topology() -> bytes:
    """Return the output of `topology --usage` as SVG."""
    text = TOPOLOGY.read_text().rstrip("\n")
    return _drawn(Text(text), max(map(len, text.splitlines())), text.count("\n") + 1, "topology", " --usage")


def kubectl_nodes() -> bytes:
    """Return the output of `kubectl resctrl nodes` as SVG."""
    nodes = [Node.model_validate(item) for item in json.loads(CLUSTER.read_text())["nodes"]["items"]]
    shown = nodes_table(nodes, wide=False, headers=True)
    return _drawn(shown, _WIDE, len(nodes) + 1, "nodes", program="kubectl resctrl")


def kubectl_top() -> bytes:
    """Return the output of `kubectl resctrl top` as SVG."""
    pods = [PodUsage.model_validate(item) for item in json.loads(CLUSTER.read_text())["top"]["items"]]
    shown = pods_table(pods, "pod", headers=True)
    return _drawn(shown, _WIDE, len(pods) + 1, "top", program="kubectl resctrl")


def _drawn(
    shown: RenderableType, width: int, height: int, command: str, options: str = "", program: str = "resctrl-hook"
) -> bytes:
    out = Console(
        file=io.StringIO(), width=width, height=height, record=True, color_system="truecolor", legacy_windows=False
    )
    out.print(shown)
    drawn = out.export_svg(title=f"{program} {command}{options}", unique_id=command)
    return _FONT.sub("", drawn).replace("Fira Code, monospace", "monospace").encode()

"""The package's imports, those for the type checker included: no module imports itself through others."""

from graphlib import TopologicalSorter

import grimp
import pytest

pytestmark = pytest.mark.no_cover


def test_package_has_no_import_cycle() -> None:
    graph = grimp.build_graph("resctrl_hooks", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert sum(map(len, imports.values())) > len(imports) > 200, "the imports were not found"
    TopologicalSorter(imports).prepare()  # an error names the modules of a cycle

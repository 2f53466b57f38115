import pytest
from conftest import Host, workload_of

from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.registry import feature_named, plan


@pytest.mark.parametrize("name", FEATURES)
def test_no_feature_applies_to_a_sandbox(host: Host, name: str) -> None:
    """Also not to one whose annotations or whose absent process the feature would refuse."""
    feature = feature_named(name)
    assert feature is not None
    wrong = {f"class.{mark}": "gone" for mark in FEATURES[name].marks}
    sandbox = workload_of(host, **wrong, **{"io.kubernetes.cri-o.ContainerType": "sandbox"})
    (step,) = plan(feature, sandbox, host.context())
    assert (step.action, step.why) == ("skip", f"{name} does not apply to a pod's sandbox")

import pytest
from hosts.memtierd import TEMPLATE
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.features.memtierd.template import TemplateError, fill


@given(st.text(alphabet="$CGROUP2_ABTHMEISWX{}a1 \n", max_size=60))
def test_filled_template_has_no_variable_left(text: str) -> None:
    try:
        filled = fill(text, "/sys/fs/cgroup/a", "/run/a/memtierd.stats")
    except TemplateError:
        return
    assert "$CGROUP2_ABS_PATH" not in filled
    assert fill(filled, "/sys/fs/cgroup/a", "/run/a") == filled


@pytest.mark.parametrize(
    "text", ["$CGROUP2_ABS_PATHS", "$CGROUP_ABS_PATH", "${CGROUP2_ABS_PATH}", "x: $UNKNOWN", "${X}", "$X"]
)
def test_unknown_variables_are_named(text: str) -> None:
    with pytest.raises(TemplateError, match="unknown variable") as refused:
        fill(text, "/a", "/b")
    assert "known variables: $CGROUP2_ABS_PATH and $MEMTIERD_SWAP_STATS_PATH" in str(refused.value)


def test_shell_text_in_template_is_unchanged() -> None:
    text = 'intervalcommand: ["sh", "-c", "echo $1 $lower $(date) $$ 5$"]'
    assert fill(text, "/a", "/b") == text
    assert fill("- $CGROUP2_ABS_PATH/inner", "/a", "/b") == "- /a/inner"


@pytest.mark.parametrize("path", ["relative", "/a b", "/a #b", "/a: b", "/a:", "/a\\x2db", "/a'b", '/a"', "/é", "/a\n"])
def test_paths_that_yaml_would_misread_are_refused(path: str) -> None:
    with pytest.raises(TemplateError, match="is not allowed in"):
        fill(TEMPLATE, path, "/b")

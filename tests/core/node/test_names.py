import fnmatch
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.names import (
    canonical_pod_uid,
    default_key_validator,
    matches,
    namespace_in_words,
    pod_uid_validator,
    valid_class,
    valid_container_id,
    workload_key_validator,
)

UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
ANY_TEXT = st.text(st.characters(codec=None), max_size=300)


@given(st.uuids())
def test_every_spelling_of_pod_uid_has_one_canonical_form(uid: uuid.UUID) -> None:
    for spelling in (str(uid), str(uid).upper(), uid.hex, uid.hex.upper()):
        assert pod_uid_validator(spelling)
        assert canonical_pod_uid(spelling) == str(uid)
    assert workload_key_validator(str(uid))
    assert not workload_key_validator(str(uid).upper() if str(uid).upper() != str(uid) else "")


@pytest.mark.parametrize(
    "text",
    ["", UID[:-1], UID + "0", UID.replace("-", "_"), UID[:8] + "0" + UID[9:], "g" * 32, " " + UID,
     UID + "\n", "../" + UID[3:],
     "\N{KELVIN SIGN}" * 32, "\N{FULLWIDTH DIGIT ONE}" * 32, "-" * 36, UID.replace("-", "", 1) + "-"],
)  # fmt: skip
def test_invalid_pod_uid_is_refused(text: str) -> None:
    assert not pod_uid_validator(text)
    assert canonical_pod_uid(text) == text
    assert not workload_key_validator(text)


@given(ANY_TEXT)
def test_valid_key_is_one_safe_path_component(text: str) -> None:
    for valid in (default_key_validator, valid_container_id, pod_uid_validator, workload_key_validator):
        if valid(text):
            assert "/" not in text
            assert text not in ("", ".", "..")
            assert text.isascii()
            assert text.isprintable()
            assert len(text) <= 200


@given(ANY_TEXT)
def test_valid_class_is_one_path_component(text: str) -> None:
    if valid_class(text):
        assert "/" not in text
        assert "\0" not in text
        assert text not in ("", ".", "..", "info", "mon_data", "mon_groups")
        assert len(text.encode()) <= 255


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_patterns_match_as_in_shell(pattern: str, name: str) -> None:
    assert matches(pattern, name) == fnmatch.fnmatchcase(name, pattern)


def test_pattern_of_many_stars_is_fast() -> None:
    assert not matches("*a" * 2000 + "b", "a" * 4000)


def test_namespace_is_described_in_words() -> None:
    assert namespace_in_words("shop") == "namespace shop"
    assert namespace_in_words("") == "a container without a namespace"

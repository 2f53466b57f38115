"""The active settings, as `resctrl-hook config apply` compiled them: JSON in the folder of the YAML file.

The people half validates completely; this module checks only what a hook relies on, because the file may come from
another version, an image build or a MachineConfig.
"""

from . import errors
from .feature_table import FEATURES, KEYS
from .host.files import is_there, parse_json, read_file, stamp
from .names import (
    CGROUP_ROOT,
    NODE_FEATURES,
    RESCTRL_ROOT,
    STATE_DIR,
    default_key_validator,
    matches,
    namespace_in_words,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .feature_table import Sections

else:
    Sections = object

DEFAULT_CONFIG = "/etc/resctrl-hooks/config.yaml"
_USUAL_NAME = "config.yaml"
COMPILED_NAME = "config.json"
FORMAT = 1
MANAGED_BY = "managedBy"
"""The compiled file's owner, if another program than `config apply` writes it."""
FORMER_PREFIXES = "formerPrefixes"
"""The compiled file's list of earlier ``groupPrefix`` values: groups of a lost ledger may have them."""
APPLIED_FROM = "appliedFrom"
"""The compiled file's stamp of its YAML file, which an edit changes at any time. Not in version 0.2."""
_LIMIT = 1 << 20
LONGEST_DEADLINE = 60.0  # seconds, well below the timeout in the hook's JSON

# Every top-level setting of core with its default; features have sections, and parts add keys (`feature_table`).
DEFAULTS: "dict[str, Any]" = {
    "resctrlPath": RESCTRL_ROOT,
    "cgroupPath": CGROUP_ROOT,
    "procPath": "/proc",
    "sysPath": "/sys",
    "nodeFeaturesPath": NODE_FEATURES,
    "runtimeRoots": {},
    "stateDir": STATE_DIR,
    "groupPrefix": "",
    "failurePolicy": "ignore",
    "deadlineSeconds": 3.0,
    "namespaces": [],
    "labelSelector": {},
    "classes": [],
    "unifiedAnnotations": [],
    "log": {},
}


class Settings(Sections):
    """The settings of a hook. ``path`` is the compiled file, empty for the built-in defaults.

    ``sections`` has the section of each feature, and the values of the keys that parts add, by name.
    """

    former_prefixes: "tuple[str, ...]" = ()

    def __init__(self, values: "dict[str, Any] | None" = None, path: str = "") -> None:
        given = values or {}
        checked: "dict[str, Any]" = {}
        for name, default in (*DEFAULTS.items(), *KEYS.items()):
            kind = type(default)
            value = given.get(name)
            if value is None:
                checked[name] = kind(default)  # changed lists and mappings must not change the defaults
                continue
            wrong = isinstance(value, bool) is not (kind is bool)  # True is an int, too
            if wrong or not isinstance(value, (int, float) if kind is float else kind):
                raise errors.SettingsError(f"{path}: {name} should be {kind.__name__}, not {type(value).__name__}")
            if kind is str and default[:1] == "/" != str(value)[:1]:
                raise errors.SettingsError(f"{path}: {name} should be an absolute path, not {str(value)[:80]!r}")
            checked[name] = {**default, **given[name]} if kind is dict else value
        if checked["failurePolicy"] not in ("ignore", "fail"):
            raise errors.SettingsError(f"{path}: failurePolicy should be ignore or fail")
        if not 0 < checked["deadlineSeconds"] <= LONGEST_DEADLINE:
            raise errors.SettingsError(f"{path}: deadlineSeconds should be between 0 and {LONGEST_DEADLINE:g}")
        if checked["groupPrefix"] and not default_key_validator(checked["groupPrefix"]):
            prefix = checked["groupPrefix"][:80]
            raise errors.SettingsError(f"{path}: invalid groupPrefix {prefix!r}")
        for name, value in checked["log"].items():
            if not isinstance(value, str) and value is not None:
                raise errors.SettingsError(f"{path}: log.{name} should be str, not {type(value).__name__}")
        self.path = path
        self.resctrl_path: str = checked["resctrlPath"].rstrip("/")
        self.cgroup_path: str = checked["cgroupPath"].rstrip("/")
        self.proc_path: str = checked["procPath"].rstrip("/")
        self.sys_path: str = checked["sysPath"].rstrip("/")
        self.node_features_path: str = checked["nodeFeaturesPath"]
        self.runtime_roots: "dict[str, Any]" = checked["runtimeRoots"]
        self.state_dir: str = checked["stateDir"].rstrip("/")
        self.group_prefix: str = checked["groupPrefix"]
        self.failure_policy: str = checked["failurePolicy"]
        self.deadline: float = checked["deadlineSeconds"]
        self.namespaces: "list[str]" = checked["namespaces"]
        self.label_selector: "dict[str, str]" = checked["labelSelector"]
        self.classes: "list[dict[str, Any]]" = checked["classes"]
        self.unified_annotations: "list[str]" = checked["unifiedAnnotations"]
        self.log: "dict[str, Any]" = checked["log"]
        self.applied_from: "Any" = given.get(APPLIED_FROM)
        former = given.get(FORMER_PREFIXES)
        if isinstance(former, list):
            names = [one for one in former if isinstance(one, str)]
            self.former_prefixes = tuple(one for one in names if not one or default_key_validator(one))
        self.sections: "dict[str, Any]" = {name: checked[name] for name in KEYS}
        for name, row in FEATURES.items():
            self.sections[name] = _section(given.get(name), row.defaults, f"{path}: {name}")
            setattr(self, name, self.sections[name])

    @property
    def groups(self) -> "dict[str, Any]":
        """The section on pods' groups, for engines, which do not know its feature's name."""
        return self.monitoring

    @property
    def uses_resctrl(self) -> bool:
        """Whether a feature in use works with resctrl."""
        return bool(self.monitoring["enabled"] or self.rdt["enabled"])

    @property
    def shares_rmids(self) -> bool:
        """Whether rules assign RMIDs; otherwise the first pod gets one."""
        return any(self.monitoring.get(name) is not None for name in ("priority", "reserve", "share"))

    def has_defaults(self, feature: str) -> bool:
        """Return whether the operator has defaults for containers that request nothing of a feature."""
        return any((getattr(self, feature).get("defaults") or {}).values())

    def selects(self, namespace: str) -> str:
        """Return why the namespace filter excludes a namespace, or an empty string.

        As in the resctrl-mon plugin, an empty list means all namespaces. Patterns (``team-*``) are an extension.
        """
        if self.namespaces and not any(matches(pattern, namespace) for pattern in self.namespaces):
            return f"{namespace_in_words(namespace)} is not among the configured namespaces"
        return ""

    def selects_labels(self, labels: "dict[str, str]") -> str:
        """Return why the label selector excludes a pod with these labels, or an empty string."""
        for name, value in self.label_selector.items():
            if labels.get(name) != value:
                return f"label {name}={value} of the label selector does not match, or the pod has the same annotation"
        return ""


def _section(given: "Any", defaults: "dict[str, Any]", what: str) -> "dict[str, Any]":
    """Return a feature's section with defaults for missing values.

    An empty path, word or list that must not be empty counts as missing; an empty table allows nothing.
    """
    if given is None:
        return dict(defaults)
    if not isinstance(given, dict):
        raise errors.SettingsError(f"{what} should be dict, not {type(given).__name__}")
    configured = {
        name: value
        for name, value in given.items()
        if value is not None and not (value in ("", []) and isinstance(defaults.get(name), (str, tuple)))
    }
    return {**defaults, **configured}


def compiled_path(config: str) -> str:
    """Return the compiled file of a ``--config FILE``: no two YAML files have the same one.

    It is config.json beside config.yaml, NAME.compiled.json beside another file, and FILE itself if it is JSON.
    """
    if config.endswith(".json"):
        return config
    return beside(config, COMPILED_NAME) if _name_of(config) == _USUAL_NAME else f"{config}.compiled.json"


def last_valid_path(compiled: str) -> str:
    """Return the copy of a compiled file, which is used if that is damaged."""
    return f"{compiled.removesuffix('.json')}.last.json"


def active_path(config: str) -> str:
    """Return the compiled file in use: the file's own, or until it exists the config.json of version 0.2.

    That version compiled every YAML file of a folder to config.json. It is not used if it belongs to a config.yaml
    beside it, or to another program such as a MachineConfig.
    """
    own = compiled_path(config)
    if own == config or _name_of(config) == _USUAL_NAME or is_there(own) or is_there(last_valid_path(own)):
        return own
    former = beside(config, COMPILED_NAME)
    if is_there(beside(config, _USUAL_NAME)):
        return own
    try:
        value = parse_json(read_file(former, _LIMIT, follow=True))
    except (OSError, ValueError):
        return own
    of_others = not isinstance(value, dict) or value.get(MANAGED_BY) or value.get(APPLIED_FROM)
    return own if of_others else former


def config_command(config: str, word: str = "apply") -> str:
    """Return the command that applies a YAML file, or another command of `config` for it."""
    return f"resctrl-hook {'' if config == DEFAULT_CONFIG else f'--config {config} '}config {word}"


def _name_of(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def beside(path: str, name: str) -> str:
    """Return the path of another file in the folder of ``path``."""
    return path[: path.rfind("/") + 1] + name


def load(config: str = DEFAULT_CONFIG) -> "tuple[Settings, str]":
    """Return the active settings and their problem, an empty string for none.

    A missing default file means the defaults. A damaged or untrusted one is replaced by the last valid one.

    Raises:
        SettingsError: neither is usable.
    """
    path = compiled_path(config)
    try:
        settings = _read(path)
    except (OSError, ValueError, errors.SettingsError) as problem:
        what = problem.strerror if isinstance(problem, OSError) else str(getattr(problem, "message", problem))
        what = (what or "").removeprefix(f"{path}: ")
        try:
            settings = _read(last_valid_path(path))
        except (OSError, ValueError, errors.SettingsError):
            if not isinstance(problem, FileNotFoundError):
                raise errors.SettingsError(f"invalid settings in {path}: {what}") from problem
            if config == DEFAULT_CONFIG:
                return Settings(), _never_applied(config)
            if path != active_path(config):
                return _of_version_0_2(config)
            raise _nothing_at(config, path) from problem
        return settings, f"invalid settings in {path} ({what}); the last valid settings stay active"
    edited = f"{config} is newer than the active settings; run `{config_command(config)}`"  # hooks never compile
    return settings, edited if _is_edited(config, path, settings) else ""


def _read(path: str) -> Settings:
    value = parse_json(read_file(path, _LIMIT, trusted=True, follow=True))
    if not isinstance(value, dict) or value.get("format", FORMAT) != FORMAT:
        raise errors.SettingsError(f"{path} is not a compiled configuration of format {FORMAT}")
    return Settings(value, path)


def _of_version_0_2(config: str) -> "tuple[Settings, str]":
    former = active_path(config)
    problem = f"{config} has never been applied; {former} of version 0.2 stays active; run `{config_command(config)}`"
    try:
        return _read(former), problem
    except (OSError, ValueError) as error:
        raise errors.SettingsError(f"invalid settings in {former}: {error}") from error


def _never_applied(config: str) -> str:
    if stamp(config) is None:
        return ""
    return f"{config} has never been applied; the defaults apply; run `{config_command(config)}`"


def _nothing_at(config: str, path: str) -> "errors.SettingsError":
    if config != path and is_there(config):
        return errors.SettingsError(f"no compiled settings at {path}", hint=f"run `{config_command(config)}`")
    return errors.SettingsError(f"{config} does not exist", hint="name another file with --config")


def _is_edited(config: str, compiled: str, settings: Settings) -> bool:
    """Return whether a YAML file was edited since it was applied."""
    now, then = stamp(config), stamp(compiled)
    if config == compiled or now is None or then is None:
        return False
    return settings.applied_from != str(now) if settings.applied_from else now[0] - 10**9 > then[0]


def is_unapplied(config: str) -> bool:
    """Return whether the YAML file was edited since it was applied, or was never applied."""
    compiled = compiled_path(config)
    if config == compiled or not is_there(config):
        return False
    try:
        return _is_edited(config, compiled, _read(compiled))
    except (OSError, ValueError, errors.SettingsError):
        return not is_there(compiled)

"""The messages of NRI and ttrpc with their relevant fields: number, type and name, in protobuf's terms.

Sources: containerd/nri, pkg/api/api.proto (v0.12; an older runtime leaves newer fields out, and unknown fields are
skipped); containerd/ttrpc, request.proto; googleapis, google/rpc/status.proto. Enums are int32, and maps are strings to
strings. A lazy message stays bytes until a feature needs it. Of a plugin's changes all fields are here that a recorded
answer has, which the tests encode again.
"""

MESSAGES: "dict[str, dict[int, str]]" = {
    "MapEntry": {1: "string key", 2: "string value"},
    # ttrpc
    "Request": {
        1: "string service",
        2: "string method",
        3: "bytes payload",
        4: "int64 timeout_nano",
    },
    "Response": {1: "Status status", 2: "bytes payload"},
    "Status": {1: "int32 code", 2: "string message"},
    # the Runtime service, which the plugin calls
    "RegisterPluginRequest": {1: "string plugin_name", 2: "string plugin_idx", 3: "string NRI_version"},
    "UpdateContainersRequest": {1: "repeated ContainerUpdate update"},
    # the Plugin service, which the runtime calls
    "ConfigureRequest": {
        1: "string config",
        2: "string runtime_name",
        3: "string runtime_version",
        5: "int64 request_timeout",
        6: "string NRI_version",
    },
    "ConfigureResponse": {2: "int32 events"},
    "SynchronizeRequest": {1: "repeated PodSandbox pods", 2: "repeated Container containers", 3: "bool more"},
    "SynchronizeResponse": {2: "bool more"},
    "PodEvent": {1: "PodSandbox pod"},
    "ContainerEvent": {1: "PodSandbox pod", 2: "Container container"},
    "StateChangeEvent": {1: "int32 event", 2: "PodSandbox pod", 3: "Container container"},
    "StateChangeNumber": {1: "int32 event"},  # all that must be known of it before anything else is
    "CreateContainerResponse": {1: "ContainerAdjustment adjust"},
    # pods and containers
    "PodSandbox": {
        1: "string id",
        2: "string name",
        3: "string uid",
        4: "string namespace",
        5: "map string labels",
        6: "map string annotations",
        8: "LinuxPodSandbox linux",
    },
    "LinuxPodSandbox": {3: "string cgroup_parent"},
    "Container": {
        1: "string id",
        2: "string pod_sandbox_id",
        3: "string name",
        6: "map string annotations",
        8: "repeated bytes env",
        11: "LinuxContainer linux",
        12: "uint32 pid",
    },
    "Mount": {1: "string destination", 2: "string type", 3: "string source", 4: "repeated string options"},
    "LinuxContainer": {
        2: "repeated bytes devices",
        3: "lazy LinuxResources resources",
        5: "string cgroups_path",
        6: "LinuxIOPriority io_priority",
        11: "LinuxScheduler scheduler",
        12: "LinuxRdt rdt",
    },
    "LinuxDevice": {
        1: "string path",
        2: "string type",
        3: "int64 major",
        4: "int64 minor",
        5: "OptionalUInt32 file_mode",
        6: "OptionalUInt32 uid",
        7: "OptionalUInt32 gid",
    },
    "LinuxResources": {
        1: "LinuxMemory memory",
        2: "LinuxCPU cpu",
        4: "OptionalString blockio_class",
        5: "OptionalString rdt_class",
        6: "map string unified",
    },
    "LinuxMemory": {1: "OptionalInt64 limit", 3: "OptionalInt64 swap"},
    "LinuxCPU": {
        1: "OptionalUInt64 shares",
        2: "OptionalInt64 quota",
        3: "OptionalUInt64 period",
        6: "string cpus",
        7: "string mems",
    },
    "LinuxIOPriority": {1: "int32 class", 2: "int32 priority"},
    "LinuxScheduler": {
        1: "int32 policy",
        2: "int32 nice",
        3: "int32 priority",
    },
    "LinuxRdt": {
        1: "OptionalString clos_id",
        3: "OptionalBool enable_monitoring",
    },
    "OptionalString": {1: "string value"},
    "OptionalInt64": {1: "int64 value"},
    "OptionalUInt32": {1: "uint32 value"},
    "OptionalUInt64": {1: "uint64 value"},
    "OptionalBool": {1: "bool value"},
    # the plugin's changes
    "ContainerAdjustment": {
        2: "map string annotations",
        3: "repeated Mount mounts",
        4: "repeated KeyValue env",
        6: "LinuxContainerAdjustment linux",
        7: "repeated bytes rlimits",
    },
    "LinuxContainerAdjustment": {
        1: "repeated LinuxDevice devices",
        2: "LinuxResources resources",
        4: "OptionalInt64 oom_score_adj",
        5: "LinuxIOPriority io_priority",
        10: "LinuxScheduler scheduler",
        12: "LinuxMemoryPolicy memory_policy",
    },
    "LinuxMemoryPolicy": {1: "int32 mode", 2: "string nodes", 3: "repeated int32 flags"},
    "KeyValue": {1: "string key", 2: "string value"},
    "ContainerUpdate": {1: "string container_id", 2: "LinuxContainerUpdate linux", 3: "bool ignore_failure"},
    "LinuxContainerUpdate": {1: "LinuxResources resources"},
}

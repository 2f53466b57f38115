"""What the plugin answers, says and changes at a runtime's events, as golden texts of scripts (`story.py`)."""

# ruff: noqa: E501  # an event stands on one line, with its values

import pytest
from conftest import Host
from golden import Golden

from nri.node.story import Story

STORIES = {
    # Lives of containers
    "the end of a pod is logged and wakes pods that wait": """
        configure && process 41 && start 41 && end && mark waiting another && die 41 && end
    """,
    "a pod with processes of another sandbox is marked idle": """
        configure && process 41 && start 41 && die 41 && populate && end
    """,
    "a start without a process waits for the late one": """
        configure && start && process 41 && late 41 && late
    """,
    "an end without a record does nothing": """
        configure {failurePolicy: fail}
        stop {id_: x/../y} && remove {id_: x/../y} && end
        stop {pod: {uid: ../..}} && remove {pod: {uid: ""}} && end {pod: {uid: ../..}}
    """,
    "an end that fails is answered and counted": """
        configure {failurePolicy: fail} && process 41 && start 41 && die 41
        folder pods/<pod>/pod && stop && remove && end
    """,
    "labels select pods": """
        configure {labelSelector: {app: web}} && process 41 && start 41 {pod: {labels: {app: db}}} && start 41
    """,
    "annotations by the pod's author change neither namespace nor pod": """
        configure {namespaces: [shop]} && process 41
        start 41 {annotations: {io.container.manager: libpod, io.kubernetes.cri.sandbox-uid: 00000000-0000-0000-0000-000000000000, io.kubernetes.cri.sandbox-namespace: elsewhere, io.kubernetes.cri.container-type: sandbox}}
    """,
    "malformed resources do not affect features that do not read them": """
        configure {blockio: {enabled: true, allow: {"*": ["*"]}}} && process 41
        start 41 {asks: {blockio: slow}, linux: {resources: !!binary /w==}}
    """,
    "a node without resctrl is quiet, and logs its reason once when runtimes connect": """
        unmounted && configure && create && process 41 && start 41 && list 41 && list 41
        configure {failurePolicy: fail} && create && start 41
        configure rdt {rdt: {enabled: true, allow: {"*": ["*"]}}} && create {asks: {rdt: gold}}
        configure rdt {rdt: {enabled: true, allow: {"*": ["*"]}, failurePolicy: fail}} && create {asks: {rdt: gold}}
    """,
    "a late start is served once after a start without a process": """
        needs StartContainer && needs PostStartContainer 41
        served StartContainer 1 && needs PostStartContainer 41 && needs PostStartContainer 41
    """,
    "an end needs work only if something is recorded": """
        configure && needs StopContainer && needs RemoveContainer && needs RemovePodSandbox && process 41 && start 41
        needs StopContainer && needs RemoveContainer && needs RemovePodSandbox && needs StopContainer {unreadable: true}
    """,
    # Settings and the status
    "settings are read again after a change only": """
        settings && write {"failurePolicy": "fail"} && settings && write { && settings
    """,
    "creations are subscribed only if they may be refused or adjusted": """
        settings && needs CreateContainer
        configure {failurePolicy: fail} && settings && needs CreateContainer
        configure {nri: {adjust: [rdt]}} && settings && configure {monitoring: {failurePolicy: fail}} && settings
        configure {classes: [{name: batch, env: {A: b}}]} && settings
        configure {classes: [{name: batch}], memory: {failurePolicy: ignore}} && settings
    """,
    "the runtime's configuration replaces the file until the next connection": """
        told {config: ' {"failurePolicy": "fail"}'} && settings
        write {"namespaces": ["shop"]} && settings && told && settings
    """,
    "an invalid configuration of the runtime is named": """
        told {config: "a: 1"} && told {config: "[]"} && told {config: '{"failurePolicy": 3}'} && settings
    """,
    "connections, drops and failed events are logged and in the status": """
        configure && connect cri-o 1.37 && status && dropped it is gone && dropped it is gone && status
        connect cri-o 1.37 && dropped it is gone && status
        served StopContainer 0 && served StopContainer 1 && served StopContainer 2 && served StopContainer none && status
        updated && updated a reason
    """,
    # Values of earlier plugins
    "a class of an earlier plugin is left and counted": """
        class gold && configure rdt {failurePolicy: fail}
        create {asks: {rdt: gold}, linux: {resources: {rdt_class: {value: silver}}}}
    """,
    "a class of an earlier plugin stays and is shown": """
        class gold silver && configure rdt && process 41 silver && start 41 {asks: {rdt: gold}} && show
    """,
    "a class of an earlier plugin of a listed container stays": """
        class gold silver && configure rdt && process 41 silver && list 41 {asks: {rdt: gold}} && show
    """,
    "a scheduler of an earlier plugin stays": """
        configure scheduling && runtime v0.12.0 && create {asks: {scheduling: quick}, linux: {scheduler: {policy: 4}}}
    """,
    # Creations
    "an impossible class is refused under fail only": """
        configure rdt && create {asks: {rdt: silver}}
        configure rdt {rdt: {enabled: true, allow: {"*": [gold]}, failurePolicy: fail}} && create {asks: {rdt: silver}}
        class gold && create {asks: {rdt: gold}}
    """,
    "fields are those of the runtime's version": """
        configure scheduling && create {asks: {scheduling: quick}}
        runtime 0.9.9 && create {asks: {scheduling: quick}} && runtime 0.10.0 && create {asks: {scheduling: quick}}
        runtime v0.11.0 && create {asks: {scheduling: quick}} && runtime v1.0 && create {asks: {scheduling: quick}}
        runtime v0.x && create {asks: {scheduling: quick}} && runtime 0.11 && create {asks: {scheduling: quick}}
    """,
    "a class brings mounts, variables and devices to allowed containers": """
        configure batch {classes: [{name: batch, env: {A: "1"}, mounts: [{source: /usr, destination: /x}], devices: [{path: /dev/null}]}]}
        create {asks: {class: batch}} && create
        configure batch {classes: [{name: batch, mounts: [{source: /usr, destination: /x, options: [bind]}]}]}
        create {asks: {class: batch}}
        configure batch {classes: [{name: batch, devices: [{path: /etc/passwd}]}]} && create {asks: {class: batch}}
        configure {classes: [{name: batch, env: {A: "1"}}], nri: {allow: {elsewhere: ["*"]}}}
        create {asks: {class: batch}}
        configure {classes: [{name: batch, env: {A: "1"}}], nri: {allow: {elsewhere: ["*"]}}, failurePolicy: fail}
        create {asks: {class: batch}}
    """,
    "a memory policy needs an allowed class and a runtime that has it": """
        configure batch {classes: [{name: spread, policy: {mode: MPOL_INTERLEAVE, nodes: allowed-mems, flags: [MPOL_F_STATIC_NODES]}}]}
        runtime v0.12.1 && create {asks: {policy: spread}} && create && runtime v0.11.0 && create {asks: {policy: spread}}
        configure {classes: [{name: spread, policy: {mode: MPOL_LOCAL}}]} && runtime v0.12.1 && create {asks: {policy: spread}}
    """,
    # In time
    "a container whose pod's lock is late is refused": """
        configure {failurePolicy: fail} && lock && create
    """,
    "a container that cannot be placed leaves no group": """
        configure {failurePolicy: fail, placement: {policy: pools}} && create {asks: {pool: nowhere}}
        configure {failurePolicy: fail, placement: {policy: pools}, nri: {adjust: [placement]}}
        create {asks: {pool: nowhere}}
    """,
    "a timeout after all checks refuses nothing": """
        configure batch {monitoring: {enabled: false}, placement: {failurePolicy: fail}, classes: [{name: batch, mounts: [{source: /usr, destination: /x}]}]}
        fail encode && create {asks: {class: batch}}
    """,
    "a cpuset that is not recorded costs no mount": """
        configure batch {monitoring: {enabled: false}, placement: {}, classes: [{name: batch, mounts: [{source: /usr, destination: /x}]}]}
        lock placement && create {asks: {class: batch}}
    """,
    "an event whose process died refuses by the policies that concern all containers": """
        configure && lost && configure {failurePolicy: fail} && lost && lost {unreadable: true}
        configure {monitoring: {failurePolicy: fail}} && lost && lost {unreadable: true}
        configure {rdt: {enabled: true, failurePolicy: fail}} && lost
        configure {classes: [{name: batch, memtierdconfig: "policy: {}"}]} && lost
        configure {monitoring: {failurePolicy: fail}, namespaces: [shop]} && lost
        configure {monitoring: {failurePolicy: fail}, namespaces: [batch]} && lost
        configure {placement: {failurePolicy: fail}} && lost
        configure {placement: {failurePolicy: fail, namespaces: [batch]}} && lost
    """,
}


@pytest.mark.parametrize("name", STORIES)
def test_events_are_answered(host: Host, golden: Golden, name: str) -> None:
    golden(Story(host).play(STORIES[name]))

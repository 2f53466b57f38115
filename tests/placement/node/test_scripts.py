"""What each event on a node with placement changes and says, as golden texts of scripts (`script.py`).

The machine has 16 cores; l3-0: 0-3,16-19  l3-1: 4-7,20-23  l3-2: 8-11,24-27  l3-3: 12-15,28-31.
"""

# ruff: noqa: E501  # an event stands on one line, with its values

import pytest
from conftest import Host
from golden import Golden

from placement.node.script import Stage

SCRIPTS = {
    # Pools
    "a pool grows and shrinks with its containers": """
        place {policy: pools, pools: [{name: db, cpus: "0-3,16-19", minCpus: 2, namespaces: [shop]}, {name: fixed, cpus: "4-5,20-21"}]}
        start other 500 {pool: default} && start a 500 && start ab 1500 && stop ab && start b 1501
        start c 9100 && stop c && stop b && stop a
    """,
    "a declared default pool has its own CPUs": """
        place {policy: pools, pools: [{name: default, cpus: "0-3,16-19"}, {name: grow, cpus: "4-7,20-23", minCpus: 1}]}
        start a 500 && start b 500 {pool: grow}
        place {policy: pools, pools: [{name: default, cpus: "0-3,16-19", minCpus: 1}, {name: grow, cpus: "4-7,20-23", minCpus: 1}]}
        start c 500
    """,
    "a group with a full instance gets another one, and its containers keep their places": """
        place {policy: pools, pools: [{name: web, namespaces: [shop], maxCpus: 2, maxInstances: 0, instancePer: namespace}], allow: {shop: [web]}}
        start a 2000 && start b 2000 && start c 2000 && start d 500 && stop b && start e 1500
    """,
    "a group by names of pods, too": """
        place {policy: pools, pools: [{name: web, namespaces: [shop], maxCpus: 2, maxInstances: 0, instancePer: "${pod/uid}-${pod/name}"}], allow: {shop: [web]}}
        start a 2000 && start b 2000 && start c 500
    """,
    # Expressions
    "the first pool that matches labels or the namespace gets the container": """
        place tiers
        start plain 500 && start logger 500 && labels {tier: low} && start low 500 && labels {tier: high}
        start high 500 && start noted 500 {"balloon.balloons.nri": side} && write sandbox/config.json {
        start blind 500
        place {policy: pools, failurePolicy: fail, pools: [{name: fast, cpus: "2-3,18-19", matchExpressions: [{key: pod/labels/tier, operator: Exists}]}]}
        start no 500
        place {policy: pools, failurePolicy: fail, pools: [{name: shop, cpus: "4-7,20-23", matchExpressions: [{key: name, operator: Exists}]}]}
        start any 500
    """,
    "an invalid expression in the settings is an error of placement": """
        place {policy: pools, failurePolicy: fail, pools: [{name: side, cpus: "0-1", matchExpressions: [{operator: In}]}]} && start a 500
        place {policy: pools, failurePolicy: fail, pools: [{name: side, cpus: "0-1", matchExpressions: [{key: name}]}]} && start a 500
        place {policy: pools, failurePolicy: fail, pools: [{name: side, cpus: "0-1", matchExpressions: [{key: 5, operator: In}]}]} && start a 500
        place {policy: pools, failurePolicy: fail, pools: [{name: side, cpus: "0-1", matchExpressions: [5]}]} && start a 500
    """,
    "an invalid pool in the settings is an error of placement": """
        place {policy: pools, failurePolicy: fail, pools: [{cpus: "1"}]} && start a 500
        place {policy: pools, failurePolicy: fail, pools: [{name: a, maxCpus: x}]} && start a 500
        place {policy: pools, failurePolicy: fail, pools: [{name: a, cpus: x}]} && start a 500
        place {policy: pools, failurePolicy: fail, pools: [{name: a, cpus: 4-5, minCpus: x}]} && start a 500
    """,
    # CPU classes
    "reconcile repairs overwritten values once": """
        place classes && start a 500 && write cpufreq/policy2/scaling_min_freq 900000 && reconcile && reconcile
    """,
    "a value that another program has set meanwhile is the restored one": """
        place classes && start a 500 && write cpufreq/policy2/scaling_governor schedutil && reconcile
        write cpufreq/policy3/scaling_governor schedutil && stop a
    """,
    "a preference of another program is restored after a class that has only a governor": """
        place classes {cpuClasses: [{name: fast, freqGovernor: schedutil}], pools: [{name: db, cpus: 0-3, cpuClass: fast, namespaces: [shop]}]}
        start a 500 && write cpufreq/policy2/energy_performance_preference power && reconcile && reconcile
        stop a
    """,
    "a frequency that the kernel lowers for a while is not restored later": """
        place classes {pools: [{name: db, cpus: 0-3, cpuClass: slow, namespaces: [shop]}]}
        start a 500 && write cpufreq/policy2/scaling_max_freq 1000000 && reconcile && stop a
    """,
    "a shared policy has the first class and is restored by its last CPU": """
        place classes {pools: [{name: db, cpus: 0-3, cpuClass: fast}, {name: batch, cpus: 16-19, cpuClass: slow}]}
        start b 500 {pool: batch} && start a 500 {pool: db} && stop b && stop a
    """,
    "a missing file is reported once, and other values are written": """
        remove cpufreq/policy*/energy_performance_preference
        place classes && start a 500 && start b 500 && reconcile && stop a b
    """,
    "an uninstallation that keeps records restores values": """
        place classes && start a 500 && restore && reconcile
    """,
    "values of a removed CPU are forgotten": """
        place classes && start a 500 && gone cpufreq/policy1 && stop a
    """,
    "a release reports a value that it cannot restore": """
        place classes && start a 500
        place classes {enabled: false}
        kernel refuse {of: policy, why: EBUSY} && release && well && release
    """,
    "a value that cannot be restored now is restored by a later reconcile": """
        place classes && start a 500 && kernel refuse {of: policy1/, why: EBUSY} && stop a && well && reconcile
    """,
    "a preference that the governor replaced is restored": """
        kernel pstate
        place classes {idleCpuClass: eco, cpuClasses: [{name: eco, energyPerformancePreference: power}, {name: fast, freqGovernor: performance}], pools: [{name: db, cpus: 0-3, cpuClass: fast, namespaces: [shop]}, {name: eco, cpus: 4-7, cpuClass: eco, namespaces: [none]}]}
        reconcile && start a 500 && reconcile && stop a && start a 500
        place classes {cpuClasses: [{name: eco, energyPerformancePreference: power}], pools: [{name: db, cpus: 0-3, cpuClass: eco, namespaces: [shop]}]}
        reconcile
        place {policy: pools, pools: [{name: db, cpus: 0-3, namespaces: [shop]}]}
        reconcile
        place classes {cpuClasses: [{name: fast, freqGovernor: performance}], pools: [{name: db, cpus: 0-3, cpuClass: fast, namespaces: [shop]}]}
        reconcile && stop a
    """,
    "limits are written in an order that the kernel accepts": """
        kernel order
        place classes {cpuClasses: [{name: fast, minFreq: "3000000"}, {name: slow, minFreq: "100000", maxFreq: "200000"}]}
        start a 500 && start b 500 {pool: batch} && stop a b
    """,
    "a value that the kernel rounds is not written again": """
        kernel round
        place classes {cpuClasses: [{name: fast, maxFreq: "1250000"}, {name: slow}]}
        start a 500 && reconcile
    """,
    "classes follow the configuration although the repair of places fails": """
        place classes && start a 500
        place classes {pools: [{name: db, cpus: 0-3, cpuClass: slow, namespaces: [shop]}]}
        fail follow && reconcile && well
        place classes && fail check_kubelet && reconcile && well
        place classes {pools: [{name: db, cpus: 0-3, cpuClass: slow, namespaces: [shop]}]}
        fail _forget_dead && reconcile && well && fail Book && reconcile && well && reconcile
    """,
    "an unwritable record changes no value and fails no container": """
        place classes {failurePolicy: fail}
        fail disk && start a 500 && well && reconcile
    """,
    # C-states, uncore and turbo
    "a class disables C-states by name and latency, and its end enables them": """
        place classes {cpuClasses: [{name: fast, disabledCstates: [C6, C1]}, {name: slow, maxCstateLatency: 10}]}
        start a 500 && start b 500 {pool: batch} && reconcile && stop a b
        place classes {cpuClasses: [{name: fast, maxCstateLatency: 0}, {name: slow, maxCstateLatency: 50, disabledCstates: [C6, C1E]}]}
        start a 500 && start b 500 {pool: batch}
    """,
    "a value that the kernel accepts but does not keep is reported and tried again": """
        place classes {cpuClasses: [{name: fast, disabledCstates: [C6], uncoreMaxFreq: "1500000"}, {name: slow}]}
        kernel keep && start a 500 && well && reconcile && reconcile
    """,
    "the uncore of a package has the highest limits of its classes": """
        place classes {cpuClasses: [{name: fast, uncoreMinFreq: min, uncoreMaxFreq: "1200000"}, {name: slow, uncoreMinFreq: "1600000", uncoreMaxFreq: turbo}]}
        start a 500 && start b 500 {pool: batch} && stop b && stop a
    """,
    "domains of a package are written where the kernel has them": """
        uncore uncore00 0 0 && uncore uncore01 0 1 && uncore uncore02 1 0
        place classes {cpuClasses: [{name: fast, uncoreMaxFreq: "1500000"}, {name: slow}]}
        start a 500 && stop a
    """,
    "domains of a package without dies are all written": """
        uncore uncore00 0 && uncore uncore01 0 && uncore uncore02 1
        place classes {cpuClasses: [{name: fast, uncoreMaxFreq: "1500000"}, {name: slow}]}
        start a 500 && stop a
    """,
    "a class with a lower turbo priority has the base frequency while a higher one is used": """
        place classes {cpuClasses: [{name: fast, minFreq: turbo, turboPriority: 10}, {name: slow, minFreq: turbo, turboPriority: 1}]}
        start b 500 {pool: batch} && start a 500 && stop a
        place classes {turboDomain: system, cpuClasses: [{name: fast, minFreq: turbo, turboPriority: 10}, {name: slow, minFreq: turbo, turboPriority: 1}]}
        start a 500 && stop a b
    """,
    "turbo priorities count in their package": """
        place classes {pools: [{name: db, cpus: 0-3, cpuClass: fast, namespaces: [shop]}, {name: batch, cpus: 8-9, cpuClass: slow}], cpuClasses: [{name: fast, minFreq: turbo, turboPriority: 10}, {name: slow, minFreq: turbo, turboPriority: 1}]}
        start b 500 {pool: batch} && start a 500
    """,
    "the default class applies to CPUs without another class": """
        place classes {reservedCpus: "31", pools: [{name: db, cpus: 0-3, cpuClass: slow, namespaces: [shop]}, {name: plain, cpus: 8-9}], cpuClasses: [{name: default, disabledCstates: [C6]}, {name: slow, maxCstateLatency: 2}]}
        start a 500 && start p 500 {pool: plain}
        place classes {idleCpuClass: slow, reservedCpus: "31", pools: [{name: db, cpus: 0-3, cpuClass: slow, namespaces: [shop]}, {name: plain, cpus: 8-9}], cpuClasses: [{name: default, disabledCstates: [C6]}, {name: slow, maxCstateLatency: 2}]}
        reconcile && release
    """,
    "an annotation gives exclusive CPUs a class until the end": """
        place {cpuClasses: [{name: quick, disabledCstates: [C6]}]}
        start a 2000 {cpus: exclusive, "cpu-class.nri/container.a": quick} && remove state/placement
        reconcile && stop a
    """,
    "a class that does not fit changes no value": """
        place {cpuClasses: [{name: quick, disabledCstates: [C6]}, {name: secret}], allow: {shop: [exclusive, "class:quick"]}}
        start a 2000 {cpus: exclusive, "cpu-class.nri": none}
        start b 500 {"cpu-class.nri/container.b": quick} && start c 500 {"cpu-class.nri": quick}
        start d 2000 {cpus: exclusive, "cpu-class.nri": secret}
    """,
    # Interrupts
    "interrupts stay on the first core by CRI-O's housekeeping": """
        start a 4000 {cpus: exclusive, irqs: housekeeping} && reconcile && stop a
        start a 2000 {cpus: exclusive, irqs: housekeeping} && stop a
        start a 6000 {cpus: exclusive, irqs: housekeeping} && stop a
        start a 4000 {cpus: exclusive, irqs: housekeeping, hide-hyperthreads.nri: "true"} && stop a
        start a 4000 {cpus: exclusive, irqs: housekeeping, irq-affinity.nri: "mask: ['*']"}
    """,
    "an unknown affinity of interrupts is named and changes none": """
        start a 2000 {cpus: exclusive, irqs: housekeping}
        start b 2000 {cpus: exclusive, irq-affinity.nri: "claim: ['nvme*']"}
        start c 2000 {cpus: exclusive, irq-affinity.nri: "mask: ['eth*']"}
        start d 2000 {cpus: exclusive, irq-affinity.nri: "mask: ['*']\\nclaim: ['nvme*']"}
    """,
    "a mask of all interrupts counts in each form": """
        start a 2000 {cpus: exclusive, irq-affinity.nri/container.a: "mask: ['*']"} && stop a
        start a 2000 {cpus: exclusive, irq-affinity.nri/container.a: '{"mask": ["*"]}'} && stop a
        start a 2000 {cpus: exclusive, irq-affinity.nri/container.a: "mask:\\n- '*'\\nmode: mask-first"}
        stop a
    """,
    "an affinity that another program has set meanwhile is the restored one": """
        start a 2000 {cpus: exclusive, irqs: disable} && write 25 0-31 && reconcile && stop a
        start a 2000 {cpus: exclusive, irqs: disable} && write 25 9 && reconcile && reconcile && stop a
    """,
    "interrupts that the kernel manages are counted and named once": """
        kernel refuse {of: irq/24/ irq/25/, why: EIO} && start a 2000 {cpus: exclusive, irqs: disable}
        start b 2000 {cpus: exclusive, irqs: disable} && reconcile && stop a b
    """,
    "a socket without irqbalance is ignored": """
        socket && start a 2000 {cpus: exclusive, irqs: disable}
    """,
    "irqbalance is told and told back": """
        balancer && start a 2000 {cpus: exclusive, irqs: disable} && stop a
    """,
    "irqbalance with its own CPUs is told back before its next pass": """
        balancer 30-31 {lazy: true} && start a 2000 {cpus: exclusive, irqs: disable} && stop a
    """,
    "irqbalance that does not answer in time is told back later": """
        balancer 9 && start a 2000 {cpus: exclusive, irqs: disable} && fail irqbalance && reconcile && stop a
        well && reconcile && start a 2000 {cpus: exclusive, irqs: disable}
        place {enabled: false}
        fail irqbalance && reconcile && well && reconcile
    """,
    "irqbalance without a known value is not told": """
        balancer 9 && fail irqbalance && start a 2000 {cpus: exclusive, irqs: disable} && well && reconcile
        stop a
    """,
    # Containers that are not placed, or not as they ask
    "a container that preserves its CPUs is not placed": """
        start a 500 {cpu.preserve.nri: "true"}
        place {allow: {shop: [exclusive]}}
        start b 500 {cpu.preserve.nri: "true"}
    """,
    "CPUs of dead pods are released on demand": """
        start dead 30000 {cpus: exclusive} && die dead && start new 30000 {cpus: exclusive}
    """,
    "the kubelet's managers and an unknown state of them make placement inactive": """
        write kubelet/cpu_manager_state {"policyName": "static"} && start a 500
        write kubelet/cpu_manager_state {"policyName": "none"}
        write kubelet/memory_manager_state {"policyName": "Static"} && start b 500
        write kubelet/memory_manager_state {"policyName": "None"} && start c 500
        write kubelet/cpu_manager_state && start d 500 && write kubelet/cpu_manager_state { && start e 500
        write kubelet/cpu_manager_state [] && start f 500 && write kubelet/cpu_manager_state {} && start g 500
    """,
    "a parent cgroup with fewer CPUs limits placement, or refuses under fail": """
        allow a 1-3 && start a 1000 {cpus: exclusive}
        place {failurePolicy: fail}
        allow b 1-3 && start b 1000 {cpus: exclusive}
    """,
    "a request that fails shares CPUs, or is refused under fail": """
        start own 2000 {cpus: exclusive}
        place {allow: {}}
        start a 500 {cpus: exclusive}
        place {allow: {}, failurePolicy: fail}
        start b 500 {cpus: exclusive}
        place && start c 500 {cpus: mine}
        place {failurePolicy: fail}
        start d 500 {cpus: mine}
        place {policy: pools, pools: [{name: db, cpus: 0-3}]}
        start e 500 {pool: gone}
        place {policy: pools, pools: [{name: db, cpus: 0-3}], failurePolicy: fail}
        start f 500 {pool: gone}
        place {policy: /nowhere.py}
        start g 500
        place {policy: /nowhere.py, failurePolicy: fail}
        start h 500
    """,
    "an unlimited container gets a part of the annotated level": """
        start a 500 && start b 500 {unlimited-burstable.nri: l3cache}
        start c 500 {unlimited-burstable.nri: numa} && start d 500 {unlimited-burstable.nri: package}
        start e 500 {unlimited-burstable.nri: system}
    """,
    # Reconcile
    "reconcile places containers that no hook has seen": """
        start hooked 500 && unseen late 2000 {cpus: exclusive} && unseen pause 0 {type: sandbox}
        reconcile {dry: true} && reconcile && reconcile && stop late
    """,
    "a record that is a folder does not stop reconcile": """
        start broken 500 && start good 500 && folder record/broken && unseen late 500 && reconcile
    """,
    "missing shared CPUs are reported": """
        start a 500 && start own 2000 {cpus: exclusive} && offline 1-15,17-31 && reconcile && start b 500
        offline 31 && reconcile
    """,
    "reserved CPUs are shared before exclusive ones": """
        place {reservedCpus: "31"}
        start a 500 && start own 2000 {cpus: exclusive} && offline 1-15,17-30 && reconcile
    """,
    "a container without its exclusive CPUs gets others": """
        start a 500 && start own 2000 {cpus: exclusive} && offline 0,16 && reconcile
    """,
    "an unusable file of placement is named and holds up no end": """
        start a 500 && folder state/placement && reconcile && stop a
    """,
    "an unusable file of placement that is being written is named": """
        start a 500 && folder state/placement.writing && reconcile && stop a
    """,
    "an unusable file of the machine is named": """
        start a 500 && folder state/topology && reconcile && stop a
    """,
    "an unusable mark of untold units is named": """
        start a 500 && folder state/placement.untold && reconcile && stop a
    """,
    # CPUs that other programs have given to containers: respected from the next pass of reconcile on.
    # The CDI files are those of dra-driver-cpu's source (pkg/driver/cdi.go, `AddDevice`): it needs a kubelet to run.
    "a claim is respected at the next pass, and its end returns its CPUs": """
        place {monitoring: true}
        start gold 2000 {cpus: exclusive} && start bronze 500 && claim 0-3 && reconcile && reconcile
        write claim && reconcile && write claim {} && reconcile
        write claim {"devices": [{"containerEdits": {"env": [1]}}]} && reconcile && remove claim && reconcile
        stop bronze && start again 500
    """,
    "a cpuset by another program is respected at the next pass, and its end returns its CPUs": """
        place {monitoring: true}
        start gold 2000 {cpus: exclusive} && start bronze 500 && own theirs 0,16 2000 && reconcile && reconcile
        stop theirs && reconcile
    """,
    "a cpuset that a request does not fill takes no CPUs": """
        place {monitoring: true}
        own pool 0-27 500 && own whole 0-31 32000 && own pin 4-7 3999 && reconcile
    """,
    "a claim that was never readable is named, and others are repaired": """
        place {monitoring: true}
        write claim { && start bronze 500 && write bronze:cpuset.cpus 1 && reconcile
    """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_events_change_and_say(host: Host, golden: Golden, name: str) -> None:
    golden(Stage(host, shared="shared policy" in name).play(SCRIPTS[name]))

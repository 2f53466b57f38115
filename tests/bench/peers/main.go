// A driver for the policies topology-aware and balloons of nri-plugins: it reads events of containers as lines of JSON
// and prints the place of every running container after each event. The first line is the setup. The policies see a
// sysfs tree below a folder, and run without privileges, because they would set interrupts of this machine.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"

	nri "github.com/containerd/nri/pkg/api"

	balloons "github.com/containers/nri-plugins/cmd/plugins/balloons/policy"
	topologyaware "github.com/containers/nri-plugins/cmd/plugins/topology-aware/policy"
	balloonsconfig "github.com/containers/nri-plugins/pkg/apis/config/v1alpha1/resmgr/policy/balloons"
	topologyawareconfig "github.com/containers/nri-plugins/pkg/apis/config/v1alpha1/resmgr/policy/topologyaware"
	"github.com/containers/nri-plugins/pkg/kubernetes"
	"github.com/containers/nri-plugins/pkg/resmgr/cache"
	"github.com/containers/nri-plugins/pkg/resmgr/policy"
	"github.com/containers/nri-plugins/pkg/sysfs"
	"github.com/containers/nri-plugins/pkg/topology"
)

const nobody = 65534

// Setup names the policy, its configuration, the folder that contains the sysfs tree, and the node's memory in bytes.
type Setup struct {
	Policy string          `json:"policy"`
	Config json.RawMessage `json:"config"`
	Root   string          `json:"root"`
	Memory int64           `json:"memory"`
}

// Event is the start or the end of a container, with the values that a runtime gives to an NRI plugin.
type Event struct {
	Event       string            `json:"event"`
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Pod         string            `json:"pod"`
	PodName     string            `json:"podName"`
	Namespace   string            `json:"namespace"`
	Cgroup      string            `json:"cgroup"`
	Annotations map[string]string `json:"annotations"`
	Shares      uint64            `json:"shares"`
	Quota       int64             `json:"quota"`
	Period      uint64            `json:"period"`
	Memory      int64             `json:"memory"`
	OomScoreAdj int64             `json:"oomScoreAdj"`
	Devices     []Device          `json:"devices"`
}

// Device is a device file.
type Device struct {
	Path  string `json:"path"`
	Type  string `json:"type"`
	Major int64  `json:"major"`
	Minor int64  `json:"minor"`
}

// Place is a container's cpuset, and those of its CPUs that the policy calls exclusive.
type Place struct {
	Cpus      string `json:"cpus"`
	Mems      string `json:"mems"`
	Exclusive string `json:"exclusive"`
}

// Answer is the result of an event: why the container was refused, and the places of all containers.
type Answer struct {
	Refused string           `json:"refused"`
	Places  map[string]Place `json:"places"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if os.Geteuid() == 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setgid(nobody); err != nil {
			return err
		}
		if err := syscall.Setuid(nobody); err != nil {
			return err
		}
	}
	input := json.NewDecoder(bufio.NewReader(os.Stdin))
	output := json.NewEncoder(os.Stdout)
	setup := Setup{}
	if err := input.Decode(&setup); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "placement-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	store, err := cache.NewCache(cache.Options{CacheDir: folder})
	if err != nil {
		return err
	}
	store.BlockSave() // it would be written at each event
	backend, err := started(setup, store)
	if err != nil {
		return err
	}
	for input.More() {
		event := Event{}
		if err := input.Decode(&event); err != nil {
			return err
		}
		answer := Answer{Places: map[string]Place{}}
		if event.Event == "start" {
			answer.Refused = start(event, backend, store)
		} else {
			end(event, backend, store)
		}
		for _, container := range store.GetContainers() {
			data := backend.ExportResourceData(container)
			answer.Places[container.GetID()] = Place{
				Cpus:      container.GetCpusetCpus(),
				Mems:      container.GetCpusetMems(),
				Exclusive: joined(data[policy.ExportExclusiveCPUs], data[policy.ExportIsolatedCPUs]),
			}
		}
		if err := output.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

func joined(sets ...string) string {
	found := []string{}
	for _, cpus := range sets {
		if cpus != "" {
			found = append(found, cpus)
		}
	}
	return strings.Join(found, ",")
}

// started returns the policy, ready for containers.
func started(setup Setup, store cache.Cache) (policy.Backend, error) {
	sysfs.SetSysRoot(setup.Root)
	topology.SetSysRoot(setup.Root)
	kubernetes.SetMemoryCapacity(setup.Memory)
	system, err := sysfs.DiscoverSystem()
	if err != nil {
		return nil, err
	}
	var backend policy.Backend
	var config any
	switch setup.Policy {
	case topologyaware.PolicyName:
		backend, config = topologyaware.New(), &topologyawareconfig.Config{}
	case balloons.PolicyName:
		backend, config = balloons.New(), &balloonsconfig.Config{}
	default:
		return nil, fmt.Errorf("unknown policy %q", setup.Policy)
	}
	if err := json.Unmarshal(setup.Config, config); err != nil {
		return nil, err
	}
	options := policy.BackendOptions{
		Cache:     store,
		System:    system,
		SendEvent: func(any) error { return nil },
		Config:    config,
	}
	if err := backend.Setup(&options); err != nil {
		return nil, err
	}
	return backend, backend.Start()
}

// start does the work of CreateContainer and StartContainer, and returns why the container is refused.
func start(event Event, backend policy.Backend, store cache.Cache) string {
	if _, known := store.LookupPod(event.Pod); !known {
		store.InsertPod(&nri.PodSandbox{
			Id:          event.Pod,
			Uid:         event.Pod,
			Name:        event.PodName,
			Namespace:   event.Namespace,
			Annotations: event.Annotations,
			Linux:       &nri.LinuxPodSandbox{CgroupParent: event.Cgroup},
		}, nil)
	}
	container, err := store.InsertContainer(described(event), cache.WithContainerState(cache.ContainerStateCreating))
	if err != nil {
		return err.Error()
	}
	if err := backend.AllocateResources(container); err != nil {
		container.UpdateState(cache.ContainerStateStale)
		forget(event, store)
		return err.Error()
	}
	settle(store)
	container.UpdateState(cache.ContainerStateRunning)
	return ""
}

// end does the work of StopContainer, RemoveContainer and RemovePodSandbox.
func end(event Event, backend policy.Backend, store cache.Cache) {
	if container, known := store.LookupContainer(event.ID); known {
		if err := backend.ReleaseResources(container); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		settle(store)
		forget(event, store)
	}
}

func forget(event Event, store cache.Cache) {
	store.DeleteContainer(event.ID)
	if pod, known := store.LookupPod(event.Pod); known && len(pod.GetContainers()) == 0 {
		store.DeletePod(event.Pod)
	}
}

// settle takes the changes that the resource manager would send to the runtime.
func settle(store cache.Cache) {
	for _, container := range store.GetPendingContainers() {
		if container.GetState() == cache.ContainerStateCreating {
			container.GetPendingAdjustment()
		} else {
			container.GetPendingUpdate()
		}
		for _, controller := range container.GetPending() {
			container.ClearPending(controller)
		}
	}
}

func described(event Event) *nri.Container {
	resources := &nri.LinuxResources{
		Cpu:    &nri.LinuxCPU{Shares: nri.UInt64(event.Shares)},
		Memory: &nri.LinuxMemory{},
	}
	if event.Quota > 0 {
		resources.Cpu.Quota = nri.Int64(event.Quota)
		resources.Cpu.Period = nri.UInt64(event.Period)
	}
	if event.Memory > 0 {
		resources.Memory.Limit = nri.Int64(event.Memory)
	}
	linux := &nri.LinuxContainer{Resources: resources, OomScoreAdj: nri.Int(int(event.OomScoreAdj))}
	for _, device := range event.Devices {
		linux.Devices = append(linux.Devices, &nri.LinuxDevice{
			Path: device.Path, Type: device.Type, Major: device.Major, Minor: device.Minor,
		})
		resources.Devices = append(resources.Devices, &nri.LinuxDeviceCgroup{
			Allow: true, Access: "rwm", Type: device.Type, Major: nri.Int64(device.Major), Minor: nri.Int64(device.Minor),
		})
	}
	return &nri.Container{Id: event.ID, PodSandboxId: event.Pod, Name: event.Name, Linux: linux}
}

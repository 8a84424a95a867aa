// Program podrequests prints what Kubernetes makes of the resources of pods: the vectors that portcullis's own formula
// is compared with. Pods get the API server's defaults first, as the scheduler sees no others.
//
//	cd tests/testbed/podrequests && go run . >../../it/podrequests.jsonl
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
)

// vector is one line: the pod's spec as a user writes it, and what Kubernetes answers.
type vector struct {
	Spec     v1.PodSpec        `json:"spec"`
	Requests map[string]string `json:"requests"`
	Limits   map[string]string `json:"limits"`
}

func main() {
	source := rand.New(rand.NewSource(1))
	for range 250 {
		spec := random(source)
		pod := &v1.Pod{Spec: *spec.DeepCopy()}
		pod = stored(pod)
		line, err := json.Marshal(vector{
			Spec:     spec,
			Requests: printed(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})),
			Limits:   printed(resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})),
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}

// stored is the pod with the API server's defaults: those of decoding, and those of its creation.
func stored(pod *v1.Pod) *v1.Pod {
	corev1.SetObjectDefaults_Pod(pod)
	internal, external := &core.Pod{}, &v1.Pod{}
	if err := corev1.Convert_v1_Pod_To_core_Pod(pod, internal, nil); err != nil {
		panic(err)
	}
	podutil.DefaultPodLevelResources(internal)
	if err := corev1.Convert_core_Pod_To_v1_Pod(internal, external, nil); err != nil {
		panic(err)
	}
	return external
}

func printed(list v1.ResourceList) map[string]string {
	amounts := map[string]string{}
	for key, amount := range list {
		number, suffix := amount.CanonicalizeBytes(make([]byte, 0, 64))
		amounts[string(key)] = string(number) + string(suffix)
	}
	return amounts
}

func random(source *rand.Rand) v1.PodSpec {
	always := v1.ContainerRestartPolicyAlways
	spec := v1.PodSpec{}
	for range source.Intn(4) {
		container := container(source)
		if source.Intn(2) == 0 {
			container.RestartPolicy = &always
		}
		spec.InitContainers = append(spec.InitContainers, container)
	}
	for range 1 + source.Intn(3) {
		spec.Containers = append(spec.Containers, container(source))
	}
	if source.Intn(3) == 0 {
		spec.Overhead = list(source, "cpu", "memory")
	}
	if source.Intn(2) == 0 {
		keys := []string{"cpu", "memory", "hugepages-2Mi"}
		spec.Resources = &v1.ResourceRequirements{Requests: list(source, keys...), Limits: list(source, keys...)}
	}
	return spec
}

func container(source *rand.Rand) v1.Container {
	keys := []string{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu"}
	return v1.Container{Name: "main", Resources: v1.ResourceRequirements{Requests: list(source, keys...), Limits: list(source, keys...)}}
}

// list holds some of the keys, or is absent.
func list(source *rand.Rand, keys ...string) v1.ResourceList {
	if source.Intn(3) == 0 {
		return nil
	}
	amounts := []string{"0", "1", "2", "5", "250m", "1500m", "1Gi", "512Mi", "2G", "64Mi"}
	list := v1.ResourceList{}
	for _, key := range keys {
		if source.Intn(2) == 0 {
			list[v1.ResourceName(key)] = resource.MustParse(amounts[source.Intn(len(amounts))])
		}
	}
	return list
}

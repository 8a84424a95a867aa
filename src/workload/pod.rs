//! Pod, the thing that is dispatched: gated when it is created.

use super::{PodPath, Resource, Treatment, WorkloadKind};

/// A pod.
pub struct Pod;

impl WorkloadKind for Pod {
    fn resource(&self) -> Resource {
        Resource {
            group: "",
            version: "v1",
            plural: "pods",
            kind: "Pod",
        }
    }

    fn pod(&self) -> PodPath {
        PodPath::ITSELF
    }

    fn treatment(&self) -> Treatment {
        Treatment::GatePod
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

const EXAMPLE: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: one
  labels: {app: one}
spec:
  containers:
  - name: main
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: 10m}}
";

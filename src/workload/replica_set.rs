//! ReplicaSet that stands alone: its template is marked. One that a Deployment controls is never touched, since a
//! template that differs from the Deployment's makes its controller create ReplicaSets without end.

use super::{PodPath, Resource, Treatment, WorkloadKind};

/// A ReplicaSet of group apps.
pub struct ReplicaSet;

impl WorkloadKind for ReplicaSet {
    fn resource(&self) -> Resource {
        Resource {
            group: "apps",
            version: "v1",
            plural: "replicasets",
            kind: "ReplicaSet",
        }
    }

    fn pod(&self) -> PodPath {
        PodPath::SPEC_TEMPLATE
    }

    fn treatment(&self) -> Treatment {
        Treatment::GateTemplate
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

const EXAMPLE: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: alone
spec:
  replicas: 2
  selector: {matchLabels: {app: alone}}
  template:
    metadata:
      labels: {app: alone}
    spec:
      containers:
      - name: main
        image: registry.k8s.io/pause:3.10
";

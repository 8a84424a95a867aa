//! StatefulSet: its template is marked, so that its pods are born gated.

use super::{PodPath, Resource, Treatment, WorkloadKind};

/// A StatefulSet of group apps.
pub struct StatefulSet;

impl WorkloadKind for StatefulSet {
    fn resource(&self) -> Resource {
        Resource {
            group: "apps",
            version: "v1",
            plural: "statefulsets",
            kind: "StatefulSet",
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
kind: StatefulSet
metadata:
  name: db
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata:
      labels: {app: db}
    spec:
      containers:
      - name: main
        image: registry.k8s.io/pause:3.10
";

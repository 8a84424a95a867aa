//! DaemonSet: its pods belong to the nodes of this cluster and cannot be dispatched, so the guard refuses it.

use super::{PodPath, Resource, Treatment, WorkloadKind};

/// A DaemonSet of group apps.
pub struct DaemonSet;

impl WorkloadKind for DaemonSet {
    fn resource(&self) -> Resource {
        Resource {
            group: "apps",
            version: "v1",
            plural: "daemonsets",
            kind: "DaemonSet",
        }
    }

    fn pod(&self) -> PodPath {
        PodPath::SPEC_TEMPLATE
    }

    fn treatment(&self) -> Treatment {
        Treatment::Refuse
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

const EXAMPLE: &str = "\
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata:
      labels: {app: agent}
    spec:
      containers:
      - name: main
        image: registry.k8s.io/pause:3.10
";

//! Deployment: its template is marked, so that its pods are born gated.

use super::{PodPath, Resource, Treatment, WorkloadKind};

/// A Deployment of group apps.
pub struct Deployment;

impl WorkloadKind for Deployment {
    fn resource(&self) -> Resource {
        Resource {
            group: "apps",
            version: "v1",
            plural: "deployments",
            kind: "Deployment",
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
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: main
        image: registry.k8s.io/pause:3.10
";

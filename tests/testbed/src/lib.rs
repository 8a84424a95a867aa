//! Real Kubernetes clusters on loopback: etcd, kube-apiserver, controller-manager, scheduler, KWOK.

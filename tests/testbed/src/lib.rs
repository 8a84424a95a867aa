//! Real Kubernetes clusters on loopback, without containers: etcd, kube-apiserver, controller-manager
//! and scheduler from their own Go modules, KWOK as the kubelet.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let world = portcullis_testbed::World::start(2).await?; // a manager, worker-a, worker-b
//! let client = world.manager.admin_client().await?;
//! world.workers[0].proxy.cut(); // the manager's side loses worker-a
//! # Ok(()) }
//! ```
//! What was started ends with the value that holds it, with the process, and with Ctrl-C. Logs stay in
//! `target/testbed/runs/`; a test that panics prints their ends.
//!
//! Nothing here uses the product's code: what the ledger knows of its keys, it spells itself.

pub mod chaos;
mod cluster;
pub mod detached;
mod install;
mod kubeconfig;
pub mod ledger;
mod portcullis;
mod ports;
mod process_id;
mod program;
mod programs;
mod proxy;
mod run_folder;
pub mod suite;
mod wait;
mod world;

pub use cluster::{Cluster, ClusterOptions, Crds, Part, Reminder, User};
pub use install::{Manifests, Route, install};
pub use kubeconfig::Kubeconfig;
pub use ledger::Ledger;
pub use portcullis::{Portcullis, PortcullisOptions};
pub use ports::{Port, free_port};
pub use process_id::ProcessId;
pub use programs::{GangPrograms, KindPrograms, KubeVersion, Programs};
pub use proxy::{Proxy, Traffic};
pub use wait::wait_for;
pub use world::{Worker, World};

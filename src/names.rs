//! Every name that Portcullis writes or reads on objects, in one place (no logic lives here).

/// The API group, and the prefix of our labels and annotations.
pub const GROUP: &str = "portcullis.dev";
/// Every key with this prefix is ours.
pub const PREFIX: &str = "portcullis.dev/";

/// The scheduling gate, our value of `managedBy`, and the name of our Kueue AdmissionCheck controller: one string.
pub const GATE: &str = "portcullis.dev/multikueue";
/// The value of `managedBy` that some kinds take beside their own: Kueue's.
pub const KUEUES_MANAGER: &str = "kueue.x-k8s.io/multikueue";
/// Annotation of a job that carries [`KUEUES_MANAGER`] because its kind does not take [`GATE`]; its value is [`GATE`].
pub const DISPATCHED_BY: &str = "portcullis.dev/dispatched-by";
/// The gate a remote pod carries from its creation until its local pod has recorded it; on a remote job an annotation,
/// [`TRUE`], beside `suspend`.
pub const UNCOMMITTED: &str = "portcullis.dev/uncommitted";

/// Namespace label, the opt-in: its value names the DispatchPolicy.
pub const DISPATCH: &str = "portcullis.dev/dispatch";
/// Namespace label: which gang scheduler PodGroups of this namespace are for.
pub const GANG: &str = "portcullis.dev/gang";
/// Namespace label: users may run single objects on the manager by [`EXEMPT`].
pub const ALLOW_EXEMPT: &str = "portcullis.dev/allow-exempt";
/// Label of a pod, template or job: run this one on the manager.
pub const EXEMPT: &str = "portcullis.dev/exempt";
/// Label of a pod or template that carries [`GATE`]; the guard selects pods by it.
pub const GATED: &str = "portcullis.dev/gated";
/// The value of [`GATED`], [`EXEMPT`] and [`ALLOW_EXEMPT`].
pub const TRUE: &str = "true";
/// The same as no [`EXEMPT`] or [`ALLOW_EXEMPT`]. Every other value means nothing, and whoever writes it is warned.
pub const FALSE: &str = "false";
/// Annotation `<group>/<Kind>/<name>` of a template or pod: the workload on top. A hint, never proof.
pub const ROOT: &str = "portcullis.dev/root";
/// Annotation of a pod with Kueue labels: nodeSelector and tolerations as submitted (JSON).
pub const SUBMITTED: &str = "portcullis.dev/submitted";

/// Annotation of a local pod: the WorkerCluster it is committed to.
pub const CLUSTER: &str = "portcullis.dev/cluster";
/// Annotation of a local pod: UID of that cluster's kube-system namespace at the commit.
pub const CLUSTER_UID: &str = "portcullis.dev/cluster-uid";
/// Annotation of a local pod: `<local uid>/<remote uid>`, the commit itself.
pub const REMOTE_UID: &str = "portcullis.dev/remote-uid";
/// Annotation of a local pod: the worker's node that runs it.
pub const REMOTE_NODE: &str = "portcullis.dev/remote-node";
/// Annotation of a local pod: how often a commit was cleared; absent is 0.
pub const ATTEMPT: &str = "portcullis.dev/attempt";
/// Finalizer of a committed local pod: its remote copy may still exist.
pub const REMOTE_COPY: &str = "portcullis.dev/remote-copy";
/// Keys that only the reconciler writes on local objects.
pub const RECONCILER_KEYS: [&str; 5] = [CLUSTER, CLUSTER_UID, REMOTE_UID, REMOTE_NODE, ATTEMPT];

/// Condition type on local objects: where is it, and why not.
pub const DISPATCHED: &str = "portcullis.dev/Dispatched";

/// Label of a remote object, and of a worker namespace: UID of the manager's kube-system namespace.
pub const ORIGIN: &str = "portcullis.dev/origin";
/// Annotation of a remote pod: UID of its local pod.
pub const LOCAL_UID: &str = "portcullis.dev/local-uid";
/// Annotation of a remote pod: `<namespace>/<name>` of its local pod.
pub const LOCAL_NAME: &str = "portcullis.dev/local-name";
/// Annotation of a remote pod: the local pod's [`ATTEMPT`] at prepare.
pub const LOCAL_ATTEMPT: &str = "portcullis.dev/local-attempt";
/// Annotation of a remote pod: hash of the sanitised copy and of the sanitiser's version.
pub const SOURCE: &str = "portcullis.dev/source";
/// Annotation of a worker's namespace, its administrator's consent: `<origin>/<namespace>`.
pub const ACCEPTS: &str = "portcullis.dev/accepts";

/// Annotation of a job: which back end makes its PodGroup, rather than the one of the namespace's label [`GANG`].
pub const GANG_SCHEDULER: &str = "portcullis.dev/gang-scheduler";
/// Annotation of a job, [`TRUE`]: it is a gang though it has no schedulingPolicy.
pub const GANG_SCHEDULING: &str = "portcullis.dev/gang-scheduling";
/// Annotation of a job: the PodGroup of this name, which nobody controls, is the job's.
pub const ADOPT_PODGROUP: &str = "portcullis.dev/adopt-podgroup";
/// Annotation of a job that we suspended until its PodGroup exists. Whoever removes it takes the suspend over.
pub const HELD: &str = "portcullis.dev/held";
/// Label of the pods of a gang, and of the templates that they come from: the name of their PodGroup.
pub const POD_GROUP: &str = "portcullis.dev/pod-group";
/// Annotation of a job whose PodGroup somebody else manages; removing it lets us try again.
pub const STAND_DOWN: &str = "portcullis.dev/stand-down";
/// Label of the PodGroups and Workloads that we made: UID of the job.
pub const JOB_UID: &str = "portcullis.dev/job-uid";
/// Well-known label of the objects that we made: [`PORTCULLIS`].
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Annotation of a PodGroup whose back end has no field for it: the job's queue.
pub const QUEUE: &str = "portcullis.dev/queue";

/// Field manager, Lease, ServiceAccount.
pub const PORTCULLIS: &str = "portcullis";
/// Our own namespace, unless configured otherwise.
pub const NAMESPACE: &str = "portcullis-system";
/// Finalizer of a WorkerCluster that has committed work.
pub const WORK_REMAINS: &str = "portcullis.dev/work-remains";

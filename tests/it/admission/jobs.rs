//! Jobs that are dispatched whole: what becomes of every kind, by its example, when it is created.

use super::*;
use portcullis::admission::{JobFacts, Keeps, admit_job};
use portcullis::workload::Resource;
use portcullis::workload::jobs::{ConfiguredKind, JobKind, JobKinds, ManagedBy, Written};

mod hostile;

const OURS: &str = "portcullis.dev/multikueue";
const KUEUES: &str = "kueue.x-k8s.io/multikueue";
const DISPATCHED_BY: &str = "portcullis.dev/dispatched-by";

/// The manager, for tests.
struct Manager {
    namespaces: Namespaces,
    keeps: Keeps,
    kinds: JobKinds,
}

const MANAGER: Manager = Manager {
    namespaces: Namespaces::OptedIn,
    keeps: Keeps::Yes,
    kinds: JobKinds::BUILT_IN,
};

impl NamespaceFacts for Manager {
    fn namespace(&self, name: &str) -> Option<NamespaceLabels> {
        self.namespaces.namespace(name)
    }
}

impl JobFacts for Manager {
    fn keeps_managed_by(&self, _: Resource) -> Keeps {
        self.keeps
    }

    fn job_kinds(&self) -> JobKinds {
        self.kinds
    }
}

fn review_of(kind: &dyn JobKind, operation: &str, object: &Value) -> Value {
    let names = kind.resource();
    let resource = json!({"group": names.group, "version": names.version, "resource": names.plural});
    with(
        review("jobs", operation, object, &Value::Null),
        "/request/resource",
        resource,
    )
}

#[track_caller]
fn ask_job(kind: &dyn JobKind, object: &Value, manager: &Manager) -> Reply {
    answer_to(&review_of(kind, "CREATE", object).to_string(), kind, manager)
}

#[track_caller]
fn answer_to(body: &str, kind: &dyn JobKind, manager: &Manager) -> Reply {
    checked(admit_job(body.as_bytes(), manager), |path| {
        let keys = kind.managed_by().path;
        let above = (1..=keys.len()).map(|depth| format!("/{}", keys[..depth].join("/")));
        let annotations = [
            "/metadata/annotations",
            "/metadata/annotations/portcullis.dev~1dispatched-by",
        ];
        above.into_iter().any(|allowed| allowed == path) || annotations.contains(&path)
    })
}

fn kinds() -> impl Iterator<Item = (&'static dyn JobKind, Value)> {
    JobKinds::BUILT_IN
        .iter()
        .map(|kind| (kind, serde_saphyr::from_str(kind.example()).unwrap()))
}

fn field(kind: &dyn JobKind) -> String {
    format!("/{}", kind.managed_by().path.join("/"))
}

fn managed_by<'v>(kind: &dyn JobKind, object: &'v Value) -> &'v str {
    object
        .pointer(&field(kind))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[track_caller]
fn is_ours(kind: &dyn JobKind, object: &Value) {
    let by = object["metadata"]["annotations"].get(DISPATCHED_BY);
    let expected = match kind.dispatch().written {
        Written::Ours => (OURS, None),
        Written::Kueues => (KUEUES, Some(&json!(OURS))),
    };
    assert_eq!(
        (managed_by(kind, object), by),
        expected,
        "{}",
        kind.resource().kind
    );
}

#[test]
fn every_kind_is_left_to_us_and_stays_so() {
    for (kind, example) in kinds() {
        for object in [
            example.clone(),
            with(example, "/metadata/annotations", json!({"a": "b"})),
        ] {
            let reply = ask_job(kind, &object, &MANAGER);
            assert_eq!(
                (reply.answer.decision, reply.answer.reason),
                ("patched", "managed")
            );
            assert_eq!(reply.answer.resource, kind.resource().plural);
            assert_eq!(reply.warnings(), Vec::<&str>::new());
            let stored = reply.applied_to(&object);
            is_ours(kind, &stored);
            let again = ask_job(kind, &stored, &MANAGER);
            assert_eq!((again.answer.reason, again.patch()), ("complete", Vec::new()));
        }
    }
}

#[test]
fn what_is_missing_above_the_field_is_made_and_a_null_is_nothing() {
    for (kind, example) in kinds() {
        let keys = kind.managed_by().path;
        for depth in 1..keys.len() {
            for value in [Value::Null, json!({})] {
                let above = format!("/{}", keys[..depth].join("/"));
                let object = with(example.clone(), &above, value);
                is_ours(kind, &ask_job(kind, &object, &MANAGER).applied_to(&object));
            }
        }
        for value in [Value::Null, json!(""), json!(kind.managed_by().local)] {
            let object = with(example.clone(), &field(kind), value);
            is_ours(kind, &ask_job(kind, &object, &MANAGER).applied_to(&object));
        }
    }
}

/// R57.
#[test]
fn who_else_runs_a_job_is_respected_and_said() {
    for (kind, example) in kinds() {
        let dotted = kind.managed_by().path.join(".");
        let long = format!("example.com/{}", "x".repeat(200));
        let mut foreign = vec!["example.com/x", &long];
        foreign.push("kubeflow.org/x");
        if kind.dispatch().written == Written::Ours {
            foreign.push(KUEUES);
        }
        for name in foreign {
            let object = with(example.clone(), &field(kind), json!(name));
            let reply = ask_job(kind, &object, &MANAGER);
            assert_eq!(
                (reply.answer.reason, reply.patch()),
                ("managed-elsewhere", Vec::new())
            );
            let [warning] = reply.warnings()[..] else {
                panic!("one warning")
            };
            assert!(warning.starts_with(&format!("{dotted} is \"")), "{warning}");
            assert!(warning.ends_with("only gates pods of it here"), "{warning}");
        }
        if kind.dispatch().written == Written::Kueues {
            // Kueue's value is ours with the annotation only, so that a real MultiKueue keeps its jobs.
            let object = with(example, &field(kind), json!(KUEUES));
            assert_eq!(
                ask_job(kind, &object, &MANAGER).answer.reason,
                "managed-elsewhere"
            );
            let marked = with(object, "/metadata/annotations", json!({DISPATCHED_BY: OURS}));
            assert_eq!(ask_job(kind, &marked, &MANAGER).answer.reason, "complete");
        }
    }
}

#[test]
fn a_kind_whose_schema_lacks_the_field_goes_by_its_pods_and_says_so() {
    let older = Manager {
        keeps: Keeps::No,
        ..MANAGER
    };
    let unseen = Manager {
        keeps: Keeps::Unknown,
        ..MANAGER
    };
    for (kind, example) in kinds() {
        let reply = ask_job(kind, &example, &older);
        assert_eq!(
            (reply.answer.reason, reply.patch()),
            ("field-dropped", Vec::new())
        );
        let [warning] = reply.warnings()[..] else {
            panic!("one warning")
        };
        let words = format!(
            "{}: {} has no such field",
            kind.managed_by().path.join("."),
            kind.resource().kind
        );
        assert!(
            warning.starts_with(&words) && warning.ends_with("its pods are dispatched one by one"),
            "{warning}"
        );
        // What the policy wrote, which knows no schemas, is taken back.
        let injected = ask_job(kind, &example, &unseen).applied_to(&example);
        is_ours(kind, &injected);
        let reply = ask_job(kind, &injected, &older);
        assert_eq!(
            (reply.answer.reason, reply.warnings().len()),
            ("field-dropped", 1)
        );
        let stored = reply.applied_to(&injected);
        assert_eq!(managed_by(kind, &stored), "");
        assert!(!stored.to_string().contains("portcullis.dev/dispatched-by"));
        assert_eq!(ask_job(kind, &stored, &older).patch(), Vec::<Value>::new());
    }
}

#[test]
fn exempt_counts_on_the_job_or_its_one_template_where_the_namespace_allows_it() {
    let allowing = Manager {
        namespaces: Namespaces::AllowExempt,
        ..MANAGER
    };
    let label = json!({"portcullis.dev/exempt": "true"});
    for (kind, example) in kinds() {
        let object = with(example.clone(), "/metadata/labels", label.clone());
        let reply = ask_job(kind, &object, &allowing);
        assert_eq!((reply.answer.reason, reply.patch()), ("exempt", Vec::new()));
        for warning in reply.warnings() {
            assert_eq!(
                warning,
                "metadata.labels: pods of this job are exempt only if their templates carry portcullis.dev/exempt too"
            );
        }
        for namespaces in [Namespaces::OptedIn, Namespaces::Misspelt, Namespaces::Unseen] {
            let manager = Manager {
                namespaces,
                ..MANAGER
            };
            let reply = ask_job(kind, &object, &manager);
            is_ours(kind, &reply.applied_to(&object));
            assert_eq!(reply.warnings().len(), 1);
        }
    }
    let (kind, job) = kinds()
        .find(|(kind, _)| kind.resource().group == "batch")
        .unwrap();
    let on_template = with(job.clone(), "/spec/template/metadata/labels", label.clone());
    assert_eq!(ask_job(kind, &on_template, &allowing).answer.reason, "exempt");
    assert_eq!(
        ask_job(kind, &on_template, &allowing).warnings(),
        Vec::<&str>::new()
    );
    let on_both = with(on_template, "/metadata/labels", label.clone());
    assert_eq!(ask_job(kind, &on_both, &allowing).warnings(), Vec::<&str>::new());
    let on_job = with(job, "/metadata/labels", label);
    assert_eq!(ask_job(kind, &on_job, &allowing).warnings().len(), 1);
}

#[test]
fn only_jobs_on_top_are_marked_and_a_cron_jobs_job_is_one() {
    for (kind, example) in kinds() {
        let owned = |owner: &str, controller: bool| {
            let owner = json!([{"apiVersion": "x/v1", "kind": owner, "name": "o", "uid": "u", "controller": controller}]);
            with(example.clone(), "/metadata/ownerReferences", owner)
        };
        let reason = |object: &Value| ask_job(kind, object, &MANAGER).answer.reason;
        assert_eq!(reason(&owned("TrainJob", true)), "controlled");
        assert_eq!(reason(&owned("CronJob", true)), "managed");
        assert_eq!(reason(&owned("Workflow", false)), "managed");
    }
}

#[test]
fn other_requests_are_none_of_its_business() {
    for (kind, example) in kinds() {
        for (operation, pointer, value, reason) in [
            ("UPDATE", "/dryRun", json!(false), "not-mutated"),
            ("DELETE", "/dryRun", json!(false), "not-mutated"),
            ("CREATE", "/subResource", json!("status"), "subresource"),
            ("CREATE", "/namespace", json!("kube-system"), "protected"),
            ("CREATE", "/namespace", json!("portcullis-system"), "protected"),
            ("CREATE", "/resource/version", json!("v0"), "unknown"),
        ] {
            let review = with(
                review_of(kind, operation, &example),
                &format!("/request{pointer}"),
                value,
            );
            let reply = answer_to(&review.to_string(), kind, &MANAGER);
            assert_eq!(
                (reply.answer.reason, reply.patch()),
                (reason, Vec::new()),
                "{operation} {pointer}"
            );
        }
    }
}

#[test]
fn a_kind_of_the_configuration_is_like_any_other() {
    let kinds = JobKinds::with(vec![ConfiguredKind {
        resource: Resource {
            group: "batch.example.com",
            version: "v1",
            plural: "solvers",
            kind: "Solver",
        },
        managed_by: ManagedBy {
            path: &["spec", "control", "who-runs", "managedBy"],
            local: "",
        },
        written: Written::Kueues,
        suspend: &["spec", "control", "suspend"],
        conditions: &["status", "conditions"],
        finished: &["Complete", "Failed"],
        failed: "Failed",
        ttl: None,
    }]);
    let kind = kinds.named("batch.example.com/v1", "Solver").unwrap();
    let manager = Manager { kinds, ..MANAGER };
    for spec in [
        json!(null),
        json!({}),
        json!({"control": {}}),
        json!({"control": {"suspend": true, "who-runs": {"a": 1}}}),
    ] {
        let object = json!({"apiVersion": "batch.example.com/v1", "kind": "Solver", "metadata": {"name": "x"}, "spec": spec});
        let stored = ask_job(kind, &object, &manager).applied_to(&object);
        is_ours(kind, &stored);
        assert_eq!(ask_job(kind, &stored, &manager).patch(), Vec::<Value>::new());
        assert_eq!(ask_job(kind, &object, &MANAGER).answer.reason, "unknown");
    }
}

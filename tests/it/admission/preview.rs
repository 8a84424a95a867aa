//! `portcullis preview admission`: what a user reads before he applies anything.

use super::*;
use portcullis::admission::policies::render;
use portcullis::cli::documents::{Format, Source};
use portcullis::cli::manifests::{configured, layout};
use portcullis::cli::preview_admission::{
    Args, Preview, PreviewError, namespace_labels, parse_label, preview, preview_admission,
};
use portcullis::workload::jobs::JobKinds;

fn run(text: &str, labels: &[&str], output: Format) -> Result<Preview, PreviewError> {
    let source = Source {
        name: "app.yaml".to_owned(),
        text: text.to_owned(),
    };
    let labels: Vec<_> = labels.iter().map(|label| parse_label(label).unwrap()).collect();
    preview(&[source], &namespace_labels(&labels), JobKinds::BUILT_IN, output)
}

#[track_caller]
fn printed(text: &str, labels: &[&str], output: Format) -> String {
    run(text, labels, output).unwrap().printed
}

#[track_caller]
fn refused(text: &str, labels: &[&str]) -> String {
    run(text, labels, Format::Yaml).unwrap_err().to_string()
}

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: one
spec:
  containers:
  - name: main
    image: pause
    env:
    - {name: \"YES\", value: \"yes\"}
    - {name: \"N\", value: \"0644\"}
  volumes:
  - name: v
    secret: {secretName: s, defaultMode: 0644}
";

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: pause}]}
";

#[test]
fn a_field_that_no_pod_has_is_warned_about_and_a_wrong_type_refused() {
    let typo = DEPLOYMENT.replace("containers:", "contaners:");
    let preview = run(&typo, &[], Format::Yaml).unwrap();
    assert_eq!(
        preview.warnings,
        [
            "Deployment default/web: spec.template.spec.contaners: no pod of Kubernetes 1.37 has this field, so it does nothing; correct its name or its place, or remove it"
        ]
    );
    let wrong = POD.replace("spec:\n", "spec:\n  restartPolicy: 5\n");
    assert_eq!(
        refused(&wrong, &[]),
        "Pod default/one is refused: spec.restartPolicy: found integer `5`, expected a string"
    );
}

#[test]
fn a_pod_is_printed_as_it_would_be_stored() {
    expect_test::expect![[r#"
        apiVersion: v1
        kind: Pod
        metadata:
          labels:
            portcullis.dev/gated: "true"
          name: one
        spec:
          containers:
          - env:
            - name: "YES"
              value: "yes"
            - name: "N"
              value: "0644"
            image: pause
            name: main
          schedulingGates:
          - name: portcullis.dev/multikueue
          volumes:
          - name: v
            secret:
              defaultMode: 420
              secretName: s
    "#]]
    .assert_eq(&printed(POD, &[], Format::Yaml));
}

#[test]
fn several_documents_lists_and_foreign_kinds_come_out_in_order() {
    let text = format!(
        "---\n{POD}---\n# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{a: \"1\"}}\n---\n\
         apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{generateName: r-}}, \
         spec: {{template: {{spec: {{}}}}}}}}\n---\n{DEPLOYMENT}"
    );
    expect_test::expect![[r#"
        OBJECT                   DECISION   REASON
        Pod default/one          patched    gated
        ConfigMap default/c      allowed    unknown
        ReplicaSet default/r-*   patched    marked
        Deployment default/web   patched    marked
    "#]]
    .assert_eq(&printed(&text, &[], Format::Table));
    let list: Value = serde_json::from_str(&printed(&text, &[], Format::Json)).unwrap();
    assert_eq!(
        (&list["kind"], list["items"].as_array().map(Vec::len)),
        (&json!("List"), Some(4))
    );
    assert_eq!(
        list["items"][3]["spec"]["template"]["spec"]["schedulingGates"][0]["name"],
        "portcullis.dev/multikueue"
    );
}

#[test]
fn json_comes_in_and_goes_out() {
    let text = pod().to_string();
    let one: Value = serde_json::from_str(&printed(&text, &[], Format::Json)).unwrap();
    assert_eq!(one, created("pods", &pod()));
    let two = printed(&format!("{text}\n{text}"), &[], Format::Yaml);
    assert_eq!(two.matches("portcullis.dev/multikueue").count(), 2);
}

/// What a user sees of a job, in every kind.
#[test]
fn a_job_is_shown_with_who_runs_it() {
    for kind in JobKinds::BUILT_IN.iter() {
        let text = kind.example();
        let first: Value = serde_json::from_str(&printed(text, &[], Format::Json)).unwrap();
        let field = format!("/{}", kind.managed_by().path.join("/"));
        assert_eq!(
            first.pointer(&field),
            Some(&json!(kind.dispatch().written.value())),
            "{text}"
        );
        assert!(printed(text, &[], Format::Table).contains("managed"));
        assert!(printed(text, &["portcullis.dev/dispatch-"], Format::Table).contains("not-opted-in"));
        let once = printed(text, &[], Format::Yaml);
        assert_eq!(printed(&once, &[], Format::Yaml), once);
        // Another scheduler's marks are made where the job runs.
        assert_eq!(
            printed(text, &["portcullis.dev/gang=volcano"], Format::Yaml),
            once
        );
    }
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {portcullis.dev/attempt: \"1\"}}\n\
        spec: {template: {spec: {containers: [{name: c, imge: i}]}}}\n";
    assert!(refused(job, &[]).contains("only portcullis itself writes portcullis.dev/attempt"));
    let typo = job.replace("portcullis.dev/attempt", "a");
    let warnings = run(&typo, &[], Format::Yaml).unwrap().warnings;
    assert!(
        warnings[0].contains("spec.template.spec.containers[0].imge"),
        "{warnings:?}"
    );
}

/// A kind that only the configuration knows.
#[test]
fn a_kind_of_the_configuration_is_shown_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(
        path("config.yaml"),
        "apiVersion: portcullis.dev/v1alpha1\nkind: PortcullisConfiguration\nkinds:\n- group: batch.example.com\n  \
         version: v1\n  kind: Solver\n  plural: solvers\n  managedBy: {path: spec.managedBy}\n  suspend: spec.suspend\n",
    )
    .unwrap();
    let solver = "apiVersion: batch.example.com/v1\nkind: Solver\nmetadata: {name: x}\nspec: {}\n";
    std::fs::write(path("solver.yaml"), solver).unwrap();
    let config = path("config.yaml").display().to_string();
    let args = Args {
        files: vec![path("solver.yaml")],
        namespace_labels: Vec::new(),
        kinds: Some(configured(&config).unwrap()),
        output: Format::Yaml,
    };
    assert!(
        preview_admission(&args)
            .unwrap()
            .contains("managedBy: portcullis.dev/multikueue")
    );
    let kinds = args.kinds;
    let rules = layout("portcullis-system", None, None, true, kinds.unwrap());
    let rendered = render(&rules).into_iter().map(|layer| layer.object.to_string());
    assert_eq!(rendered.filter(|object| object.contains("solvers")).count(), 4);
    assert!(
        configured(&path("none").display().to_string())
            .unwrap_err()
            .contains("none")
    );
}

/// Idempotence: what is printed can be applied, and previewed again.
#[test]
fn its_own_output_stays_as_it_is() {
    let once = printed(&format!("{POD}---\n{DEPLOYMENT}"), &[], Format::Yaml);
    assert_eq!(printed(&once, &[], Format::Yaml), once);
}

#[test]
fn labels_of_the_namespace_decide() {
    let exempt = POD.replace(
        "  name: one\n",
        "  name: one\n  labels: {portcullis.dev/exempt: \"true\"}\n",
    );
    for (labels, reason) in [
        (&[][..], "gated"),
        (&["portcullis.dev/allow-exempt=true"][..], "exempt"),
        (&["portcullis.dev/allow-exempt=false"][..], "gated"),
        (&["portcullis.dev/dispatch-"][..], "not-opted-in"),
        (&["portcullis.dev/dispatch=other", "team=a"][..], "gated"),
    ] {
        assert!(
            printed(&exempt, labels, Format::Table).contains(reason),
            "{labels:?}"
        );
    }
    let preview = run(&exempt, &[], Format::Yaml).unwrap();
    assert_eq!(
        preview.warnings,
        [
            "Pod default/one: metadata.labels: this namespace does not allow portcullis.dev/exempt; it runs on a worker"
        ]
    );
    let system = POD.replace("  name: one\n", "  name: one\n  namespace: kube-system\n");
    assert!(printed(&system, &[], Format::Table).contains("protected"));
}

#[test]
fn refusals_of_admission_and_of_the_guard_name_object_field_and_way_out() {
    let node = POD.replace("spec:\n", "spec:\n  nodeName: node-1\n");
    assert_eq!(
        refused(&node, &[]),
        "Pod default/one is refused: spec.nodeName: pods of this namespace run on worker clusters; remove spec.nodeName"
    );
    let daemon_set = DEPLOYMENT.replace("Deployment", "DaemonSet");
    assert!(
        refused(&daemon_set, &[]).starts_with("DaemonSet default/web is refused: kind: a DaemonSet puts")
    );
    let key = POD.replace(
        "  name: one\n",
        "  name: one\n  annotations: {portcullis.dev/cluster: worker-a}\n",
    );
    assert!(refused(&key, &[]).contains("only portcullis itself writes portcullis.dev/cluster"));
    let unreadable = DEPLOYMENT.replace("labels: {app: web}}\n", "labels: [app]}\n");
    assert!(
        refused(&unreadable, &[]).contains("spec.template.metadata.labels: found a list, expected an object")
    );
    assert!(run(&daemon_set, &["portcullis.dev/dispatch-"], Format::Yaml).is_ok());
}

#[test]
fn what_is_not_refused_is_printed_all_the_same() {
    let text = format!(
        "{}---\n{DEPLOYMENT}",
        POD.replace("spec:\n", "spec:\n  nodeName: node-1\n")
    );
    match run(&text, &[], Format::Table) {
        Err(PreviewError::Refused { refusals, printed }) => {
            assert_eq!(refusals.len(), 1);
            assert!(printed.contains("Deployment default/web"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_manifest_is_said_with_its_place() {
    for (text, sentence) in [
        (
            "kind: Pod\n",
            "app.yaml, document 1: apiVersion: missing; expected a string such as v1 or apps/v1",
        ),
        (
            "apiVersion: v1\nkind: Pod\n---\n[]\n",
            "app.yaml, document 2: found a list, expected an object with apiVersion and kind",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: [5]\n",
            "app.yaml, document 1, item 1: found 5, expected an object",
        ),
        ("a: [\n", "app.yaml is neither YAML nor JSON: "),
        ("a: 1\na: 2\n", "app.yaml is neither YAML nor JSON: "),
        ("{\"a\": ", "app.yaml is neither YAML nor JSON: "),
    ] {
        let error = run(text, &[], Format::Yaml).unwrap_err().to_string();
        assert!(error.starts_with(sentence), "{text:?}: {error}");
    }
    let error = run("", &[], Format::Yaml).unwrap_err().to_string();
    assert_eq!(error, "no object found in app.yaml");
    assert!(parse_label("no label").is_err() && parse_label("=x").is_err());
}

#[test]
fn files_are_read_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pod.yaml");
    std::fs::write(&file, POD).unwrap();
    let mut args = Args {
        files: vec![file.clone(), file],
        namespace_labels: Vec::new(),
        kinds: None,
        output: Format::Table,
    };
    assert_eq!(preview_admission(&args).unwrap().lines().count(), 3);
    args.files.push(folder.path().join("absent.yaml"));
    assert!(
        preview_admission(&args)
            .unwrap_err()
            .to_string()
            .ends_with("absent.yaml")
    );
}

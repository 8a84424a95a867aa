//! `portcullis podgroup` as a program: what goes where, and the exit code.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

const JOB: &str = "
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME}
spec:
  runPolicy: {schedulingPolicy: {minAvailable: MIN, queue: research}}
  pytorchReplicaSpecs:
    Worker: {replicas: 4, template: {spec: {containers: [{name: main}]}}}
";

#[test]
fn jobs_come_from_standard_input_and_a_refusal_is_exit_code_1() {
    let good = JOB.replace("NAME", "good").replace("MIN", "4");
    let bad = JOB.replace("NAME", "bad").replace("MIN", "-1");
    let printed = podgroup(&good);
    assert!(printed.status.success());
    assert_eq!(text(&printed.stderr).lines().count(), 1);
    assert!(text(&printed.stderr).starts_with("QueueIgnored: PyTorchJob default/good: "));
    assert!(text(&printed.stdout).contains("minMember: 4"));
    let both = podgroup(&format!("{bad}---{good}"));
    assert_eq!(both.status.code(), Some(1));
    assert_eq!(both.stdout, printed.stdout, "the others are printed all the same");
    let refusal = "PyTorchJob default/bad is refused: spec.runPolicy.schedulingPolicy.minAvailable: found -1";
    assert!(text(&both.stderr).contains(refusal), "{}", text(&both.stderr));
}

#[test]
fn without_a_job_the_list_is_empty() {
    for (jobs, said) in [
        ("", "NoJob: no job found; "),
        ("# nothing\n", "NoJob: no job found; "),
        (
            "apiVersion: v1\nkind: ConfigMap\n",
            "NotAJob: standard input, document 1 is a ConfigMap of v1, and is passed over\nNoJob: ",
        ),
    ] {
        let printed = podgroup(jobs);
        assert_eq!(printed.status.code(), Some(0), "{jobs:?}");
        assert_eq!(
            text(&printed.stdout),
            "apiVersion: v1\nitems: []\nkind: List\n",
            "{jobs:?}"
        );
        assert!(
            text(&printed.stderr).starts_with(said),
            "{}",
            text(&printed.stderr)
        );
    }
    let broken = podgroup("a: [");
    assert_eq!(
        broken.status.code(),
        Some(1),
        "what cannot be read is no empty file"
    );
    assert!(broken.stdout.is_empty());
}

fn podgroup(jobs: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_portcullis"))
        .args(["podgroup", "-f", "-", "--scheduler", "coscheduling"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(jobs.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

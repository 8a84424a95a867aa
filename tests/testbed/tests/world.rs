//! A whole world: a manager and two workers, an installation, a process that is killed and frozen.

use std::time::{Duration, Instant};

use portcullis_testbed::{Portcullis, PortcullisOptions, World, wait_for};

#[tokio::test]
async fn a_world_of_three_clusters() {
    let began = Instant::now();
    let world = World::start(2).await.expect("three clusters start");
    eprintln!("world ready after {:?}", began.elapsed());
    let names: Vec<&str> = world.clusters().map(portcullis_testbed::Cluster::name).collect();
    assert_eq!(names, ["manager", "worker-a", "worker-b"]);
    for cluster in world.clusters() {
        let nodes = cluster
            .kubectl(&["get", "nodes", "--no-headers"])
            .await
            .expect("kubectl");
        assert_eq!(nodes.matches(" Ready ").count(), 2, "{nodes}");
        cluster
            .kubectl(&["run", "control", "--image=main"])
            .await
            .expect("kubectl run");
        cluster
            .await_phase("default", "control", "Running", Duration::from_secs(30))
            .await
            .expect("it runs");
    }
    let uid = |cluster| async move {
        portcullis_testbed::Cluster::kubectl(
            cluster,
            &["get", "ns", "kube-system", "-o=jsonpath={.metadata.uid}"],
        )
        .await
        .expect("kube-system")
    };
    assert_ne!(
        uid(&world.workers[0].cluster).await,
        uid(&world.workers[1].cluster).await
    );
    eprintln!("memory:\n{}", memory(&world));

    let ids: Vec<_> = world
        .clusters()
        .flat_map(portcullis_testbed::Cluster::process_ids)
        .collect();
    assert_eq!(ids.len(), 15);
    let began = Instant::now();
    drop(world);
    eprintln!("ended after {:?}", began.elapsed());
    assert!(
        !ids.iter().any(portcullis_testbed::ProcessId::is_running),
        "{ids:?}"
    );
}

/// Any program will do for this: `sleep` takes no flags, so a shell stands in.
#[tokio::test]
async fn a_process_is_frozen_killed_and_ended() {
    let folder = std::env::temp_dir().join(format!("portcullis-testbed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = folder.join("stand-in");
    std::fs::write(
        &script,
        "#!/bin/sh\ntrap 'exit 7' TERM\necho \"ready: $*\"\nwhile :; do sleep 0.1; done\n",
    )
    .expect("write");
    make_executable(&script);
    let options = PortcullisOptions::new(&script, &folder.join("kubeconfig"), &folder);
    let mut portcullis = Portcullis::new(PortcullisOptions {
        binary: script,
        ..options
    })
    .expect("ports");

    portcullis.spawn().expect("start");
    await_starts(&portcullis, 1).await;
    let first = portcullis.pid().expect("it runs");
    portcullis.sigstop();
    assert!(stopped(first), "SIGSTOP");
    portcullis.sigcont();
    portcullis.kill9();
    assert!(!portcullis.is_running());
    assert_eq!(
        std::fs::metadata(format!("/proc/{first}"))
            .map(drop)
            .map_err(|error| error.kind()),
        Err(std::io::ErrorKind::NotFound)
    );

    portcullis.spawn().expect("start again");
    await_starts(&portcullis, 2).await;
    assert_ne!(portcullis.pid(), Some(first));
    let status = portcullis
        .sigterm(Duration::from_secs(10))
        .await
        .expect("it ends");
    assert_eq!(status.and_then(|status| status.code()), Some(7));
    portcullis.spawn().expect("a third time");
    let third = portcullis.pid().expect("it runs");
    drop(portcullis);
    assert!(
        std::fs::metadata(format!("/proc/{third}")).is_err(),
        "gone with its value"
    );
    std::fs::remove_dir_all(folder).expect("remove");
}

/// Before its first words the stand-in knows no signal; and all starts write into one log.
async fn await_starts(portcullis: &Portcullis, count: usize) {
    wait_for("the stand-in to start", Duration::from_secs(30), async || {
        let log = std::fs::read_to_string(portcullis.log())?;
        let ready = log.matches("ready: serve").count() == count;
        Ok::<_, std::io::Error>(ready.then_some(()))
    })
    .await
    .expect("it starts");
}

fn stopped(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.contains("State:\tT"))
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("chmod");
}

fn memory(world: &World) -> String {
    let line = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or("")
                .trim()
                .to_owned()
        };
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&str> = command
            .split('\0')
            .take(2)
            .map(|word| word.rsplit('/').next().unwrap_or(word))
            .collect();
        format!("  {} {}", field("VmRSS:"), words.join(" "))
    };
    world
        .manager
        .process_ids()
        .iter()
        .map(|id| line(id.pid))
        .collect::<Vec<_>>()
        .join("\n")
}

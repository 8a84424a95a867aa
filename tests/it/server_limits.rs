//! Slow, silent and too many clients; and the patient ones that must not be cut.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use portcullis::tls::Limits;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::server_rig::{Setup, Wire, allowed, dial, eventually, request, within};

const LIMIT: Duration = Duration::from_millis(600);

/// L3
#[tokio::test]
async fn a_connection_without_a_tls_hello_is_closed() {
    let rig = Setup::impatient(LIMIT).start(|_| allowed());
    let mut wire = Wire::new(TcpStream::connect(rig.address).await.unwrap());
    assert!(wire.is_closed().await);
    eventually(|| rig.metric("portcullis_tls_handshakes_total{result=\"timeout\"}") == 1.0).await;
}

/// L3
#[tokio::test]
async fn a_connection_that_is_silent_after_the_handshake_is_closed() {
    let rig = Setup::impatient(LIMIT).start(|_| allowed());
    assert!(rig.dial().await.is_closed().await);
    assert_eq!(rig.cut("first_byte"), 1.0);
}

/// L3: each byte renews nothing, the header has one deadline.
#[tokio::test]
async fn a_header_that_drips_is_cut_counted_from_its_first_byte() {
    let rig = Setup::impatient(LIMIT).start(|_| allowed());
    let mut wire = rig.dial().await;
    assert_eq!(wire.post("{}").await.unwrap().status, 200);
    tokio::time::sleep(LIMIT * 2).await;
    let drip = async {
        for byte in request("/mutate", 2).bytes() {
            if wire.send([byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(LIMIT / 10).await;
        }
    };
    tokio::select! { () = drip => {}, () = eventually(|| rig.cut("header") == 1.0) => {} }
    assert_eq!(rig.cut("header"), 1.0);
}

/// L3
#[tokio::test]
async fn a_body_that_stalls_is_cut() {
    let mut setup = Setup::impatient(LIMIT);
    // The deadline of the request would answer first.
    setup.requests.deadline = Duration::from_secs(60);
    let rig = setup.start(|_| panic!("the body is incomplete"));
    let mut wire = rig.dial().await;
    wire.send(request("/mutate", 10)).await.unwrap();
    wire.send("{").await.unwrap();
    assert!(wire.is_closed().await);
    assert_eq!(rig.cut("request"), 1.0);
}

/// L3
#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut() {
    let rig = Setup::impatient(LIMIT).start(|_| {
        let mut answer = allowed();
        answer.body = vec![b' '; 64 * 1024 * 1024];
        answer
    });
    let mut wire = rig.dial().await;
    wire.send(request("/mutate", 2)).await.unwrap();
    wire.send("{}").await.unwrap();
    eventually(|| rig.cut("write") == 1.0).await;
    eventually(|| rig.open() == 0.0).await;
}

/// L3, T12: the server that cuts all of the above leaves an idle connection alone, at every spacing.
#[tokio::test]
async fn an_idle_connection_outlives_every_other_limit() {
    assert!(
        Limits::default().idle >= Duration::from_secs(120),
        "the API server closes after 90 s"
    );
    let rig = Setup::impatient(LIMIT).start(|_| allowed());
    let spacings = [1, 10, 300, 550, 590, 598, 600, 602, 610, 650, 900, 1800];
    let clients = spacings.map(|spacing| {
        let rig = &rig;
        async move {
            let mut wire = rig.dial().await;
            for _ in 0..4 {
                let answer = wire.post("{}").await;
                assert_eq!(
                    answer.expect("the server closed first").status,
                    200,
                    "{spacing} ms"
                );
                tokio::time::sleep(Duration::from_millis(spacing)).await;
            }
        }
    });
    futures::future::join_all(clients).await;
    for stage in ["first_byte", "idle", "header", "request", "write"] {
        assert_eq!(rig.cut(stage), 0.0, "{stage}");
    }
}

/// L3: a client that is dead (or holds slots) does not keep its slot for ever.
#[tokio::test]
async fn an_idle_connection_is_closed_in_the_end() {
    let mut setup = Setup::new();
    setup.limits.idle = LIMIT;
    let rig = setup.start(|_| allowed());
    let mut wire = rig.dial().await;
    assert_eq!(wire.post("{}").await.unwrap().status, 200);
    assert!(wire.is_closed().await);
    assert_eq!(rig.cut("idle"), 1.0);
}

/// L5
#[tokio::test]
async fn over_the_cap_connections_wait_in_the_kernel_and_are_served_later() {
    let mut setup = Setup::new();
    setup.limits.connections = 3;
    let rig = setup.start(|_| allowed());
    let held = [rig.dial().await, rig.dial().await, rig.dial().await];
    let mut waits = std::pin::pin!(rig.dial());
    assert!(
        tokio::time::timeout(Duration::from_millis(200), &mut waits)
            .await
            .is_err()
    );
    assert_eq!(rig.open(), 3.0);
    drop(held);
    assert_eq!(within(waits).await.post("{}").await.unwrap().status, 200);
}

/// L5: with its descriptors used up, the accept loop neither dies nor spins, and recovers.
#[tokio::test]
async fn running_out_of_descriptors_is_survived() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "server_limits::child_with_64_descriptors",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let address = lines
        .find_map(|line| Some(line.split_once("address=")?.1.parse().unwrap()))
        .unwrap();
    let ca = lines
        .by_ref()
        .find_map(|line| Some(line.split_once("ca=")?.1.replace('|', "\n")))
        .unwrap();

    let mut crowd = Vec::new();
    for _ in 0..1000 {
        crowd.push(TcpStream::connect(address).await.unwrap());
    }
    // A hello of its own is more than the child has room for.
    let turned_away = tokio::time::timeout(Duration::from_millis(500), dial(address, &ca)).await;
    assert!(turned_away.is_err());
    for mut one in crowd {
        let _gone = one.shutdown().await;
    }
    let mut wire = within(dial(address, &ca)).await.unwrap();
    assert_eq!(wire.post("{}").await.unwrap().status, 200);
    drop(child.stdin.take());
    let errors: f64 = lines
        .find_map(|line| Some(line.split_once("errors=")?.1.parse().unwrap()))
        .unwrap();
    assert!(
        (1.0..200.0).contains(&errors),
        "{errors} accept errors: it spins, or never ran out"
    );
    assert!(child.wait().unwrap().success());
}

/// The server of the test above; ends when its stdin does.
#[tokio::test]
#[ignore = "started by running_out_of_descriptors_is_survived"]
async fn child_with_64_descriptors() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(64),
            maximum: Some(64),
        },
    )
    .unwrap();
    let rig = Setup::new().start(|_| allowed());
    println!(
        "\naddress={}\nca={}",
        rig.address,
        rig.issued.ca.replace('\n', "|")
    );
    tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()))
        .await
        .unwrap()
        .unwrap();
    let errors = rig.metric("portcullis_accept_errors_total{listener=\"webhook\"}");
    println!("\nerrors={errors}");
}

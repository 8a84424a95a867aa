//! Leaving: no call is lost, and it ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::server_rig::{Rig, Setup, allowed, dial, eventually, request, within};

/// C4 (b), (c): every answer closes its connection; the process ends when none is left.
#[tokio::test]
async fn leaving_serves_on_and_closes_with_each_answer() {
    let rig = Setup::new().start(|_| allowed());
    let mut old = rig.dial().await;
    let mut idle = rig.dial().await;
    for wire in [&mut old, &mut idle] {
        assert!(!wire.post("{}").await.unwrap().closes());
    }
    rig.shutdown.begin.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for wire in [&mut old, &mut rig.dial().await] {
        let answer = wire
            .post("{}")
            .await
            .expect("an idle connection was closed under a request");
        assert_eq!((answer.status, answer.closes()), (200, true));
        assert!(wire.is_closed().await);
    }
    // The idle one is left to its client.
    eventually(|| rig.open() == 1.0).await;
    drop(idle);
    let drained = within(rig.ended.join()).await.unwrap().unwrap();
    assert_eq!(drained.cut, 0);
}

/// C4 (c): endpoints still name us for a while.
#[tokio::test]
async fn leaving_waits_for_the_endpoint_lag_though_nobody_is_connected() {
    let mut setup = Setup::new();
    setup.drain.endpoint_lag = Duration::from_millis(400);
    let rig = setup.start(|_| allowed());
    rig.shutdown.begin.cancel();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(rig.dial().await.post("{}").await.unwrap().status, 200);
    within(rig.ended.join()).await.unwrap().unwrap();
}

/// C4 (d): what is in flight when the listener closes is finished.
#[tokio::test]
async fn a_request_in_flight_at_the_end_is_answered() {
    let mut setup = Setup::new();
    setup.drain.total = Duration::from_millis(300);
    setup.drain.refuse = Duration::ZERO;
    let rig = setup.start(|_| allowed());
    let mut wire = rig.dial().await;
    wire.send(request("/mutate", 4)).await.unwrap();
    wire.send("{}").await.unwrap();
    eventually(|| rig.metric("portcullis_admission_in_flight") == 1.0).await;
    rig.shutdown.begin.cancel();
    eventually(|| std::net::TcpStream::connect(rig.address).is_err()).await;
    wire.send("  ").await.unwrap();
    let answer = wire.receive().await.unwrap();
    assert_eq!((answer.status, answer.closes()), (200, true));
    assert_eq!(within(rig.ended.join()).await.unwrap().unwrap().cut, 0);
}

/// C4: a budget is a budget; a second signal shortens it.
#[tokio::test]
async fn a_second_signal_ends_the_wait_for_idle_connections() {
    let mut setup = Setup::new();
    setup.drain.total = Duration::from_secs(3600);
    setup.drain.refuse = Duration::from_secs(60);
    let rig = setup.start(|_| allowed());
    let mut idle = rig.dial().await;
    assert_eq!(idle.post("{}").await.unwrap().status, 200);
    rig.shutdown.begin.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    rig.shutdown.hurry.cancel();
    within(rig.ended.join()).await.unwrap().unwrap();
    assert!(idle.is_closed().await);
}

/// C4: the two signals are SIGTERM or SIGINT, in any order.
#[tokio::test]
async fn signals_begin_and_then_hurry() {
    let shutdown = portcullis::tls::Shutdown::on_signals().unwrap();
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::TERM).unwrap();
    within(shutdown.begin.cancelled()).await;
    assert!(!shutdown.hurry.is_cancelled());
    rustix::process::kill_process(me, rustix::process::Signal::INT).unwrap();
    within(shutdown.hurry.cancelled()).await;
}

/// C5
#[tokio::test]
async fn near_the_end_of_the_budget_requests_are_sent_elsewhere() {
    let mut setup = Setup::new();
    setup.drain.total = Duration::from_secs(10);
    setup.drain.refuse = Duration::from_secs(10);
    let rig = setup.start(|_| allowed());
    let mut old = rig.dial().await;
    assert_eq!(old.post("{}").await.unwrap().status, 200);
    rig.shutdown.begin.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for wire in [&mut rig.dial().await, &mut old] {
        let answer = wire.post("{}").await.unwrap();
        assert_eq!((answer.status, answer.closes()), (503, true));
        assert_eq!(answer.header("retry-after"), Some("0"));
    }
    assert_eq!(within(rig.ended.join()).await.unwrap().unwrap().cut, 0);
}

/// C6
#[tokio::test]
async fn silent_connections_do_not_hold_the_end() {
    let mut setup = Setup::impatient(Duration::from_millis(500));
    setup.drain.total = Duration::from_secs(3600);
    let rig = setup.start(|_| allowed());
    let mut silent = Vec::new();
    let mut before_tls = Vec::new();
    for _ in 0..50 {
        silent.push(rig.dial().await);
        before_tls.push(TcpStream::connect(rig.address).await.unwrap());
    }
    let accepted = "portcullis_connections_accepted_total{listener=\"webhook\"}";
    eventually(|| rig.metric(accepted) == 100.0).await;
    assert_eq!(rig.end().await.cut, 0);
}

/// C4: replicas come and go under load, endpoints follow late; the client is as the API server's (keeps
/// connections, dials anew after `Connection: close`, retries nothing).
#[tokio::test]
async fn rollouts_lose_no_call() {
    let lag = Duration::from_millis(300);
    let start = || {
        let mut setup = Setup::new();
        setup.drain.endpoint_lag = lag * 3;
        setup.start(|_| allowed())
    };
    let endpoints: Arc<Mutex<Vec<(SocketAddr, String)>>> = Arc::default();
    let endpoint = |rig: &Rig| (rig.address, rig.issued.ca.clone());
    let first = start();
    endpoints.lock().unwrap().push(endpoint(&first));
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = [1, 2, 3, 5, 8, 13, 21, 34, 55, 300]
        .into_iter()
        .map(|spacing| {
            let (endpoints, stop, calls) = (Arc::clone(&endpoints), Arc::clone(&stop), Arc::clone(&calls));
            tokio::spawn(async move {
                let mut kept = None;
                while !stop.load(Ordering::Relaxed) {
                    let mut wire = match kept.take() {
                        Some(wire) => wire,
                        None => {
                            let (address, ca) = endpoints.lock().unwrap().last().unwrap().clone();
                            dial(address, &ca).await.expect("nobody listens")
                        }
                    };
                    let answer = wire.post("{}").await.expect("EOF");
                    assert_eq!(answer.status, 200);
                    calls.fetch_add(1, Ordering::Relaxed);
                    if !answer.closes() {
                        kept = Some(wire);
                    }
                    tokio::time::sleep(Duration::from_millis(spacing)).await;
                }
            })
        })
        .collect();
    let mut old = first;
    for _ in 0..6 {
        let new = start();
        old.shutdown.begin.cancel();
        tokio::time::sleep(lag).await;
        *endpoints.lock().unwrap() = vec![endpoint(&new)];
        assert_eq!(within(old.ended.join()).await.unwrap().unwrap().cut, 0);
        old = new;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        within(client).await.unwrap();
    }
    println!(
        "{} calls over 6 rollouts, none lost",
        calls.load(Ordering::Relaxed)
    );
}

//! What goes over the wire: methods, paths, lengths, deadlines, panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::server_rig::{Setup, allowed, eventually, request};

/// P4
#[tokio::test]
async fn answers_carry_an_exact_length_no_chunks_and_no_compression() {
    let rig = Setup::new().start(|_| allowed());
    let mut wire = rig.dial().await;
    let answer = wire.post("{}").await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, allowed().body);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(
        answer.header("content-length"),
        Some(answer.body.len().to_string().as_str())
    );
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(answer.header("content-encoding"), None);
    assert!(!answer.closes());
}

/// P25
#[tokio::test]
async fn wrong_method_path_and_type_are_refused_and_the_connection_goes_on() {
    let rig = Setup::new().start(|_| panic!("the body is not to be read"));
    let mut wire = rig.dial().await;
    let json = "Content-Type: application/json\r\n";
    for (line, headers, status) in [
        ("GET /mutate HTTP/1.1", json, 405),
        ("DELETE /mutate HTTP/1.1", json, 405),
        ("POST / HTTP/1.1", json, 404),
        ("POST /mutate/x HTTP/1.1", json, 404),
        ("GET /metrics HTTP/1.1", json, 404),
        ("GET /debug/pprof HTTP/1.1", json, 404),
        ("POST /mutate HTTP/1.1", "", 415),
        ("POST /mutate HTTP/1.1", "Content-Type: application/yaml\r\n", 415),
        (
            "POST /mutate HTTP/1.1",
            "Content-Type: application/jsonx\r\n",
            415,
        ),
        (
            "POST /mutate HTTP/1.1",
            "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
            415,
        ),
    ] {
        // Head and body in two segments: the server has to wait for the body to keep the connection.
        wire.send(format!("{line}\r\nHost: h\r\n{headers}Content-Length: 5\r\n\r\n"))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        wire.send("12345").await.unwrap();
        let answer = wire.receive().await.unwrap_or_else(|| panic!("{line}: closed"));
        assert_eq!(answer.status, status, "{line} {headers}");
        assert!(!answer.closes(), "{line}");
        if status == 405 {
            assert_eq!(answer.header("allow"), Some("POST"));
        }
    }
    assert_eq!(
        rig.metric("portcullis_connections_accepted_total{listener=\"webhook\"}"),
        1.0
    );
}

/// P25
#[tokio::test]
async fn content_type_may_have_parameters_and_any_case() {
    let rig = Setup::new().start(|_| allowed());
    let mut wire = rig.dial().await;
    for value in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
    ] {
        let head = format!(
            "POST /mutate HTTP/1.1\r\nHost: h\r\nContent-Type: {value}\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        wire.send(head).await.unwrap();
        assert_eq!(wire.receive().await.unwrap().status, 200, "{value}");
    }
}

/// L1
#[tokio::test]
async fn bodies_up_to_8_mib_are_read_whole() {
    let rig = Setup::new().start(|body| {
        let mut answer = allowed();
        answer.body = body.len().to_string().into_bytes();
        answer
    });
    let mut wire = rig.dial().await;
    for size in [0, 1, 2_400, 2_000_000, 6_900_000, 8 * 1024 * 1024] {
        let answer = wire.post(vec![b' '; size]).await.unwrap();
        assert_eq!((answer.status, answer.body), (200, size.to_string().into_bytes()));
    }
}

/// L1
#[tokio::test]
async fn an_announced_body_over_the_limit_is_refused_before_a_byte_of_it() {
    let rig = Setup::new().start(|_| panic!("the body is not to be read"));
    let mut wire = rig.dial().await;
    wire.send(request("/mutate", 8 * 1024 * 1024 + 1)).await.unwrap();
    let answer = wire.receive().await.unwrap();
    assert_eq!((answer.status, answer.closes()), (413, true));
    assert!(wire.is_closed().await);
}

/// L1: an answer given early is not lost to a reset, though the client is still sending.
#[tokio::test]
async fn a_client_that_sends_on_still_reads_the_413() {
    let rig = Setup::new().start(|_| panic!("the body is not to be read"));
    let mut wire = rig.dial().await;
    wire.send(request("/mutate", 9 * 1024 * 1024)).await.unwrap();
    for _ in 0..16 {
        wire.send(vec![b' '; 16 * 1024])
            .await
            .expect("a reset while sending");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(wire.receive().await.unwrap().status, 413);
}

/// L1
#[tokio::test]
async fn a_chunked_body_is_refused_when_it_passes_the_limit() {
    let mut setup = Setup::new();
    setup.requests.body_bytes = 100_000;
    let rig = setup.start(|_| allowed());
    let mut wire = rig.dial().await;
    let head = "POST /mutate HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    wire.send(format!("{head}2\r\n{{}}\r\n0\r\n\r\n")).await.unwrap();
    assert_eq!(wire.receive().await.unwrap().status, 200);
    wire.send(head).await.unwrap();
    for _ in 0..101 {
        let _closed = wire.send(format!("3e8\r\n{}\r\n", " ".repeat(1000))).await;
    }
    let answer = wire.receive().await.unwrap();
    assert_eq!((answer.status, answer.closes()), (413, true));
}

/// L1: what a header promises is not reserved.
#[tokio::test]
async fn a_short_body_behind_a_long_promise_ends_without_the_pipeline() {
    let rig = Setup::new().start(|_| panic!("the body is incomplete"));
    let mut wire = rig.dial().await;
    wire.send(request("/mutate", 8_000_000)).await.unwrap();
    wire.send("{}").await.unwrap();
    eventually(|| rig.metric("portcullis_admission_in_flight") == 1.0).await;
    drop(wire);
    eventually(|| rig.open() == 0.0).await;
    assert_eq!(rig.metric("portcullis_admission_in_flight"), 0.0);
    assert_eq!(rig.metric("portcullis_admission_panics_total"), 0.0);
}

/// L4
#[tokio::test]
async fn headers_over_the_limits_are_refused() {
    let rig = Setup::new().start(|_| allowed());
    let long = format!(
        "POST /mutate HTTP/1.1\r\nHost: h\r\nX-Long: {}\r\n",
        "x".repeat(17_000)
    );
    let many = format!(
        "POST /mutate HTTP/1.1\r\nHost: h\r\n{}\r\n",
        "X-One: 1\r\n".repeat(64)
    );
    let very_many = format!(
        "POST /mutate HTTP/1.1\r\nHost: h\r\n{}\r\n",
        "X-One: 1\r\n".repeat(150)
    );
    let path = format!("POST /mutate?{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(2048));
    for (sent, status) in [(long, 431), (many, 431), (very_many, 431), (path, 414)] {
        let mut wire = rig.dial().await;
        wire.send(&sent).await.unwrap();
        assert_eq!(wire.receive().await.unwrap().status, status, "{sent:.60}");
        assert!(wire.is_closed().await);
    }
    let mut wire = rig.dial().await;
    let fits = format!(
        "POST /mutate HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nX-Long: {}\r\n{}Content-Length: 2\r\n\r\n{{}}",
        "x".repeat(14_000),
        "X-One: 1\r\n".repeat(60)
    );
    wire.send(fits).await.unwrap();
    assert_eq!(wire.receive().await.unwrap().status, 200);
}

/// L6
#[tokio::test]
async fn an_answer_after_the_deadline_is_a_503_and_no_success() {
    let rig = Setup::new().start(|_| {
        std::thread::sleep(Duration::from_millis(150));
        allowed()
    });
    let mut wire = rig.dial().await;
    wire.send(request("/mutate?timeout=100ms", 2)).await.unwrap();
    wire.send("{}").await.unwrap();
    let answer = wire.receive().await.unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (503, None));
    assert_eq!(rig.metric("portcullis_admission_deadline_exceeded_total"), 1.0);
    let scrape = rig.metrics.scrape();
    assert!(!scrape.contains("decision=\"allowed\""), "{scrape}");
    let mut wire = rig.dial().await;
    assert_eq!(wire.post("{}").await.unwrap().status, 200);
}

/// L6
#[tokio::test]
async fn a_slow_body_is_answered_503_before_the_caller_gives_up() {
    let rig = Setup::new().start(|_| panic!("the body is incomplete"));
    let mut wire = rig.dial().await;
    wire.send(request("/mutate?timeout=3s", 10)).await.unwrap();
    wire.send("{").await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(3), wire.receive()).await;
    let answer = answer.expect("the caller gave up").unwrap();
    assert_eq!((answer.status, answer.closes()), (503, true));
}

/// L6
#[tokio::test]
async fn a_timeout_that_cannot_be_read_means_the_default() {
    let rig = Setup::new().start(|_| allowed());
    let mut wire = rig.dial().await;
    for query in [
        "",
        "?",
        "?timeout=",
        "?timeout=x",
        "?timeout=0s",
        "?timeout=-1s",
        "?a=b&timeout=2s",
        "?timeout=1h",
    ] {
        wire.send(request(&format!("/mutate{query}"), 2)).await.unwrap();
        wire.send("{}").await.unwrap();
        assert_eq!(wire.receive().await.unwrap().status, 200, "{query}");
    }
}

/// L14
#[tokio::test]
async fn a_panic_is_a_500_and_touches_no_other_request() {
    let turn = Arc::new(AtomicUsize::new(0));
    let rig = Setup::new().start(move |_| {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        assert!(turn % 10 != 9, "injected");
        allowed()
    });
    let mut wires = [rig.dial().await, rig.dial().await, rig.dial().await];
    for turn in 0..60 {
        let answer = wires[turn % 3].post("{}").await.unwrap();
        assert_eq!(answer.status, if turn % 10 == 9 { 500 } else { 200 });
        assert!(!answer.closes());
    }
    assert_eq!(rig.metric("portcullis_admission_panics_total"), 6.0);
    assert_eq!(rig.metric("portcullis_admission_in_flight"), 0.0);
}

/// P25: two requests in one segment, and a request cut into single bytes.
#[tokio::test]
async fn requests_may_come_together_or_in_pieces() {
    let rig = Setup::new().start(|body| {
        let mut answer = allowed();
        answer.body = body.to_vec();
        answer
    });
    let mut wire = rig.dial().await;
    wire.send(format!(
        "{}one{}three",
        request("/mutate", 3),
        request("/mutate", 5)
    ))
    .await
    .unwrap();
    assert_eq!(wire.receive().await.unwrap().body, b"one");
    assert_eq!(wire.receive().await.unwrap().body, b"three");
    for byte in format!("{}four", request("/mutate", 4)).bytes() {
        wire.send([byte]).await.unwrap();
    }
    assert_eq!(wire.receive().await.unwrap().body, b"four");
}

//! Callers that mean no good: anybody on the network of pods may send anything (S1, L11).

use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn bodies() -> Vec<String> {
    let pod = review("pods", "CREATE", &pod(), &Value::Null);
    let deployment = workload("Deployment", "web");
    let mut changed = deployment.clone();
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("pause:2");
    let update = review(
        "deployments",
        "UPDATE",
        &changed,
        &created("deployments", &deployment),
    );
    vec![pod.to_string(), update.to_string(), as_go_writes(&pod)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// S1: flipped, cut, doubled and inserted bytes.
    #[test]
    fn spoiled_reviews_are_answered_and_never_panic(
        which in 0..3_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..12),
    ) {
        let mut body = bodies()[which].clone().into_bytes();
        for (place, byte, how) in edits {
            let at = place.index(body.len());
            match how {
                0 => body[at] = byte,
                1 => body.insert(at, byte),
                2 => drop(body.remove(at)),
                _ => body.extend_from_within(at..(at + 16).min(body.len())),
            }
        }
        let reply = ask_bytes(&body, &Namespaces::OptedIn);
        prop_assert!([200, 400].contains(&reply.answer.status), "{}", reply.answer.status);
    }

    /// S1: well-formed JSON where something else belongs.
    #[test]
    fn values_of_the_wrong_type_are_answered_and_never_panic(
        which in 0..3_usize,
        place in any::<prop::sample::Index>(),
        odd in prop_oneof![
            Just(json!(null)), Just(json!([])), Just(json!({})), Just(json!("x")), Just(json!(-1)), Just(json!(true)),
            Just(json!([[null]])), Just(json!({"": {"": []}})), Just(json!([{"name": "portcullis.dev/multikueue"}])),
        ],
    ) {
        fn visit(value: &mut Value, left: &mut usize, odd: &Value) {
            if *left == 0 {
                *value = odd.clone();
            }
            *left = left.wrapping_sub(1);
            match value {
                Value::Array(list) => list.iter_mut().for_each(|value| visit(value, left, odd)),
                Value::Object(map) => map.values_mut().for_each(|value| visit(value, left, odd)),
                _ => {}
            }
        }
        let mut body: Value = serde_json::from_str(&bodies()[which]).unwrap();
        visit(&mut body, &mut place.index(90), &odd);
        let reply = ask(&body, &Namespaces::OptedIn);
        prop_assert!([200, 400].contains(&reply.answer.status));
        let object = &body["request"]["object"];
        if reply.answer.status == 200 && reply.allowed() && !object.is_null() {
            reply.applied_to(object);
        }
    }
}

/// L11
#[test]
fn deep_nesting_is_walked_without_recursion() {
    let nest =
        |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    for value in [nest("[", "]", 100_000), nest(r#"{"a":"#, "}", 1_000_000)] {
        for place in [
            r#""restartPolicy":"Always""#,
            r#""tolerations":["#,
            r#""uid":"#,
            r#""labels":"#,
        ] {
            for body in bodies() {
                let key = &place[..place.find(':').unwrap()];
                let body = body.replace(
                    place,
                    &format!(
                        "{key}:{value},\"rest\":{}",
                        &place[place.find(':').unwrap() + 1..]
                    ),
                );
                ask_bytes(body.as_bytes(), &Namespaces::OptedIn);
            }
        }
        ask_bytes(value.as_bytes(), &Namespaces::OptedIn);
    }
}

/// L11: the comparison of templates reads all of them, with a limit on depth.
#[test]
fn a_template_that_nests_too_deep_is_a_changed_template() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = review(
        "deployments",
        "UPDATE",
        &workload("Deployment", "web"),
        &workload("Deployment", "old"),
    );
    let body = body.to_string().replacen(
        r#""restartPolicy":"Always""#,
        &format!(r#""restartPolicy":{deep}"#),
        1,
    );
    let reply = ask_bytes(body.as_bytes(), &Namespaces::OptedIn);
    assert_eq!(reply.answer.reason, "marked");
}

/// L11
#[test]
fn a_key_that_stands_twice_where_we_read_is_refused() {
    let review = review("pods", "CREATE", &pod(), &Value::Null);
    let (body, as_go_writes) = (review.to_string(), as_go_writes(&review));
    for (once, twice) in [
        (
            r#""labels":{"app":"one"}"#,
            r#""labels":{"app":"one","app":"two"}"#,
        ),
        (
            r#""labels":{"app":"one"}"#,
            r#""labels":{},"labels":{"app":"one"}"#,
        ),
        (
            r#""restartPolicy":"Always""#,
            r#""schedulingGates":[],"schedulingGates":[]"#,
        ),
        (r#""status":{}"#, r#""spec":{}"#),
    ] {
        for body in [&body, &as_go_writes] {
            let reply = ask_bytes(body.replace(once, twice).as_bytes(), &Namespaces::OptedIn);
            assert!(
                !reply.allowed() && reply.message().contains("duplicate"),
                "{twice}: {}",
                reply.body
            );
        }
    }
    let twice = body.replace(
        r#""operation":"CREATE""#,
        r#""operation":"CREATE","operation":"UPDATE""#,
    );
    assert_ne!(twice, body);
    assert_eq!(
        ask_bytes(twice.as_bytes(), &Namespaces::OptedIn).answer.status,
        400
    );
}

/// L11: work grows with the size of the body and not faster. The limits are a hundred times what it takes.
#[test]
fn huge_objects_take_linear_time() {
    let mut object = pod();
    object["metadata"]["labels"] = (0..100_000)
        .map(|n| (format!("k{n}"), json!("v")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    object["spec"]["schedulingGates"] = (0..50_000).map(|n| json!({"name": format!("g{n}")})).collect();
    let body = as_go_writes(&review("pods", "CREATE", &object, &Value::Null));
    let begun = Instant::now();
    let reply = ask_bytes(body.as_bytes(), &Namespaces::OptedIn);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(reply.patch().len(), 2);
}

/// O9: names and values of the caller end up in sentences, never as lines of their own or without end.
#[test]
fn hostile_names_do_not_get_into_headers() {
    let long = "x".repeat(100_000);
    for name in [
        "a\r\nSet-Cookie: b",
        "\u{0}\u{7f}\u{9b}",
        long.as_str(),
        "\u{1F980}\u{202e}",
    ] {
        let mut object = pod();
        object["metadata"]["labels"]["portcullis.dev/gated"] = json!(name);
        let reply = ask(
            &review("pods", "CREATE", &object, &Value::Null),
            &Namespaces::OptedIn,
        );
        assert!(!reply.allowed());
        assert!(reply.message().len() <= 1024 && !reply.message().contains(char::is_control));
        let version = with(
            review("pods", "CREATE", &object, &Value::Null),
            "/apiVersion",
            json!(name),
        );
        let reply = ask(&version, &Namespaces::OptedIn);
        let message = reply.body["message"].as_str().unwrap();
        assert!(message.len() <= 1024 && !message.contains(char::is_control));
    }
}

/// S1: what is in the object stays in the object.
#[test]
fn secrets_of_a_pod_are_in_no_answer() {
    for (pointer, value) in [
        (
            "/spec/containers/0/env",
            json!([{"name": "PASSWORD", "value": "hunter2"}]),
        ),
        ("/metadata/annotations/note", json!("hunter2")),
    ] {
        let mut object = pod();
        *at(&mut object, pointer) = value;
        let mut refused = object.clone();
        refused["spec"]["schedulingGates"] = json!(5);
        for object in [object, refused] {
            let reply = ask(
                &review("pods", "CREATE", &object, &Value::Null),
                &Namespaces::OptedIn,
            );
            assert!(!reply.body.to_string().contains("hunter2") && !reply.answer.detail.contains("hunter2"));
        }
    }
}

/// S1, L13: nothing on the request path can reach out, since nothing it names can.
#[test]
fn the_pipeline_names_no_io() {
    let sources = [
        "admission/mod.rs",
        "admission/review.rs",
        "admission/facts.rs",
        "admission/decide.rs",
        "admission/mutate.rs",
        "admission/mutate/template.rs",
        "admission/respond.rs",
        "pod/narrow.rs",
        "pod/read.rs",
        "pod/edit.rs",
        "workload/mod.rs",
    ];
    for source in sources {
        let path = format!("{}/src/{source}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        for word in [
            "tokio",
            "kube::",
            "std::fs",
            "std::env",
            "std::net",
            "std::time",
            "Mutex",
            "RwLock",
            "async ",
        ] {
            assert!(!text.contains(word), "{path} names {word}");
        }
    }
}

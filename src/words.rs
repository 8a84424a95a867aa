//! Errors with their causes, and long lists -> one line for people (pure).

use std::error::Error;

use kube::core::Status;

/// An error and its causes in one line, each told once. Many types put the text of their cause into their own, and some
/// nothing but their name before it; an API server's answer is told in its own words.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(status) = answer(error) {
            parts.push(answered(status.code, &status.reason, &status.message));
            break;
        }
        next = error.source();
        let text = error.to_string();
        let own = next.and_then(|cause| text.strip_suffix(&cause.to_string()));
        let own = own.map_or(text.as_str(), |own| own.trim_end_matches([':', ' ']));
        // Without a cause its text is all there is to say.
        let is_bare = next.is_some() && is_type_name(own);
        if !own.is_empty() && !is_bare && !parts.iter().any(|told| told.contains(own)) {
            parts.push(own.to_owned());
        }
    }
    parts.join(": ")
}

/// The words of an API server's refusal.
pub fn answered(code: u16, reason: &str, message: &str) -> String {
    let head = match reason {
        "" => code.to_string(),
        reason => format!("{code} {reason}"),
    };
    match message {
        "" => head,
        message => format!("{head}: {message}"),
    }
}

/// At most `most` of these, and how many more there are.
pub fn few(all: &[String], most: usize) -> String {
    match all.get(most..) {
        None | Some([]) => all.join(", "),
        Some(rest) => format!("{} and {} more", all[..most].join(", "), rest.len()),
    }
}

/// The one of these that was probably meant.
pub fn nearest<'k>(found: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let found = found.to_lowercase();
    let likeness = |known: &str| strsim::jaro_winkler(&known.to_lowercase(), &found);
    let likely = known.into_iter().map(|known| (likeness(known), known));
    likely
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

/// What an API server answered: the text of these errors has it twice, once as a dump of the type.
fn answer<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Status> {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status),
        Some(_) => None,
        None => error.downcast_ref::<Box<Status>>().map(|status| &**status),
    }
}

/// Such as `ServiceError`.
fn is_type_name(text: &str) -> bool {
    text.strip_suffix("Error").is_some_and(|name| {
        name.starts_with(|letter: char| letter.is_ascii_uppercase())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use kube::runtime::watcher;

    use super::*;

    #[test]
    fn a_cause_is_told_once_and_no_type_is_named() {
        check(
            kube::Error::Service(Box::new(Outer(refused()))),
            expect!["client error (Connect): connection refused"],
        );
        check(
            watcher::Error::WatchFailed(kube::Error::ReadEvents(refused())),
            expect!["watch stream failed: Error reading events stream: connection refused"],
        );
        check(refused(), expect!["connection refused"]);
        check(kube::Error::Service("SomeError".into()), expect!["SomeError"]);
    }

    #[test]
    fn an_answer_is_told_in_the_servers_words() {
        let status = || {
            let text = r#"{"code": 403, "reason": "Forbidden", "message": "pods is forbidden"}"#;
            Box::new(serde_json::from_str::<Status>(text).unwrap())
        };
        check(
            kube::Error::Api(status()),
            expect!["403 Forbidden: pods is forbidden"],
        );
        check(
            watcher::Error::InitialListFailed(kube::Error::Api(status())),
            expect!["failed to perform initial object list: 403 Forbidden: pods is forbidden"],
        );
        check(
            watcher::Error::WatchError(status()),
            expect!["error returned by apiserver during watch: 403 Forbidden: pods is forbidden"],
        );
        assert_eq!(answered(500, "", ""), "500");
    }

    #[test]
    fn of_many_the_first_are_told_and_the_others_counted() {
        let all: Vec<String> = (1..=7).map(|number| format!("g{number}")).collect();
        assert_eq!(few(&all[..0], 5), "");
        assert_eq!(few(&all[..5], 5), "g1, g2, g3, g4, g5");
        assert_eq!(few(&all, 5), "g1, g2, g3, g4, g5 and 2 more");
    }

    /// As hyper's client: the cause is not in its text.
    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Outer(#[source] std::io::Error);

    fn refused() -> std::io::Error {
        std::io::Error::other("connection refused")
    }

    #[track_caller]
    #[allow(clippy::needless_pass_by_value)]
    fn check(error: impl Error + 'static, expect: Expect) {
        expect.assert_eq(&chain(&error));
    }
}

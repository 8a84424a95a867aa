//! Admission: the bytes of an AdmissionReview -> the bytes of the answer.
//!
//! Four beats: [`review`] parses, [`facts`] gathers from memory, [`decide`] chooses (by the rules in [`mutate`]),
//! [`respond`] checks the patch and writes the answer. Nothing here does I/O, waits or remembers.

use std::panic::{AssertUnwindSafe, catch_unwind};

pub mod decide;
pub mod facts;
pub mod gang;
pub mod mutate;
pub mod policies;
pub mod respond;
pub mod review;
pub mod server;
pub mod validate;

pub use facts::{AllowExempt, Facts, JobFacts, Keeps, NamespaceFacts, NamespaceLabels};
pub use respond::Answer;
pub use review::{Operation, Review};

/// Answers one AdmissionReview about a job of a gang namespace, or a pod of a native group.
pub fn admit_gang(body: &[u8], facts: &dyn gang::GangFacts) -> Answer {
    answer(Review::parse_as_text(body), |review| gang::decide(review, facts))
}

/// Answers one AdmissionReview about a job that is to be dispatched whole.
pub fn admit_job(body: &[u8], facts: &dyn JobFacts) -> Answer {
    answer(Review::parse(body), |review| mutate::job::decide(review, facts))
}

/// Answers one AdmissionReview: the whole pipeline, pure, for the mutating webhook.
///
/// Never panics: a fault of ours becomes a 500 that carries the request's UID, so that `failurePolicy` decides.
pub fn admit(body: &[u8], facts: &dyn NamespaceFacts) -> Answer {
    answer(Review::parse(body), |review| {
        decide::decide(review, &Facts::gather(review, facts))
    })
}

fn answer(
    review: Result<Review<'_>, review::UnreadableReview>,
    decide: impl Fn(&Review<'_>) -> decide::Decision,
) -> Answer {
    let review = match review {
        Ok(review) => review,
        Err(error) => return respond::bad_review(&error),
    };
    catch_unwind(AssertUnwindSafe(|| respond::respond(&review, decide(&review))))
        .unwrap_or_else(|_| respond::fault(&review))
}

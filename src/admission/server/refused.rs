//! A request that gets no answer of the pipeline -> the words it gets.

use http::StatusCode;
use http::header::ALLOW;

use crate::tls::Reply;

/// A request that never reached the pipeline, or did not come back from it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Refused {
    NotFound,
    Method,
    ContentType,
    TooLarge,
    /// Its time is over.
    Late,
    /// The client went away, or sent what is no HTTP body.
    BrokenBody,
    Panic,
}

impl Refused {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Method => "method",
            Self::ContentType => "content_type",
            Self::TooLarge => "too_large",
            Self::Late => "deadline",
            Self::BrokenBody => "broken_body",
            Self::Panic => "panic",
        }
    }

    pub(super) fn reply(self) -> Reply {
        match self {
            Self::NotFound => Reply::text(StatusCode::NOT_FOUND, "no webhook has this path\n"),
            Self::Method => {
                Reply::text(StatusCode::METHOD_NOT_ALLOWED, "reviews are sent by POST\n").with(ALLOW, "POST")
            }
            Self::ContentType => Reply::text(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "reviews are application/json without content encoding\n",
            ),
            Self::TooLarge => {
                Reply::text(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large\n").closing()
            }
            // The body may be under way still, so the connection is of no more use.
            Self::Late => Reply::text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the time for this review is over\n",
            )
            .closing(),
            Self::BrokenBody => Reply::text(StatusCode::BAD_REQUEST, "the body cannot be read\n").closing(),
            Self::Panic => Reply::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "a bug in portcullis; see its log\n",
            ),
        }
    }
}

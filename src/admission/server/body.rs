//! Header and body of a request -> bytes for the pipeline, within limits.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::refused::Refused;

/// `application/json`, with or without parameters, and no encoding.
pub(super) fn is_plain_json(headers: &HeaderMap) -> bool {
    let of_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = of_type.and_then(|value| value.split(';').next()).map(str::trim);
    let plain = headers
        .get(CONTENT_ENCODING)
        .is_none_or(|encoding| encoding == "identity");
    plain && essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}

/// The length of the body, as the header says.
pub(super) fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The whole body. One frame, the usual case, is not copied; nothing is reserved on the word of a header alone.
pub(super) async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, Refused> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refused::BrokenBody)?.into_data() else {
            continue;
        };
        if first.is_empty() && all.is_empty() {
            if data.len() > limit {
                return Err(Refused::TooLarge);
            }
            if body.is_end_stream() {
                return Ok(data);
            }
            first = data;
            continue;
        }
        if !first.is_empty() {
            all.reserve(first.len() * 4);
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        if all.len() + data.len() > limit {
            return Err(Refused::TooLarge);
        }
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

//! To be written.
use serde_json::Value;
pub struct NamespaceOwner<'a> { pub name: &'a str, pub uid: &'a str }
pub struct CopyMarks<'a> { pub origin: &'a str, pub owner: Option<NamespaceOwner<'a>> }
pub struct RemoteCopy { pub pod: Value, pub source: String }
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct UnreadablePod;
pub fn sanitize(_local: &Value, _marks: &CopyMarks<'_>) -> Result<RemoteCopy, UnreadablePod> { Err(UnreadablePod) }

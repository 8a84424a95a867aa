//! To be written.
use serde_json::Value;
pub struct MirrorOptions { pub pod_ips: bool, pub cluster: String }
pub struct Dispatched { pub status: bool, pub reason: String, pub message: String }
pub fn mirror(_l: &Value, _r: &Value, _d: &Dispatched, _o: &MirrorOptions, _now: &str) -> Option<Value> { None }
pub fn condition_patch(_l: &Value, _d: &Dispatched, _now: &str) -> Option<Value> { None }
pub fn worker_lost(_l: &Value, _d: &Dispatched, _now: &str) -> Option<Value> { None }
pub fn failed(_l: &Value, _r: &str, _m: &str, _d: &Dispatched, _now: &str) -> Value { Value::Null }
pub fn waiting_reason(_r: &Value) -> Option<String> { None }
pub fn finished_at(_r: &Value) -> Option<i64> { None }

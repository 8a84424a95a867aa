//! Sidecars that a mesh injected on the manager -> gone, where they identify themselves (R98).

use serde_json::{Map, Value};

use super::change::Log;

pub(super) fn strip(_metadata: &mut Map<String, Value>, _spec: &mut Map<String, Value>, _log: &mut Log) {}

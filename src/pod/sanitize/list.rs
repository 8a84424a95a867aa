//! Lists of objects inside a spec.

use serde_json::{Map, Value};

/// Drops the elements that `unwanted` names, and tells the index of each; an empty list goes.
pub(super) fn drop(
    parent: &mut Map<String, Value>,
    list: &str,
    unwanted: impl Fn(&Value) -> bool,
    mut tell: impl FnMut(usize),
) {
    let Some(Value::Array(elements)) = parent.get_mut(list) else {
        return;
    };
    for index in (0..elements.len()).filter(|index| unwanted(&elements[*index])) {
        tell(index);
    }
    elements.retain(|element| !unwanted(element));
    if elements.is_empty() {
        parent.remove(list);
    }
}

/// The elements of a list that may be absent.
pub(super) fn elements<'a>(parent: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    parent[list].as_array().into_iter().flatten()
}

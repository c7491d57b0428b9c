//! Option values.

use std::collections::BTreeMap;

use toml::{Spanned, Value};

/// Names without leading dashes, with their values.
pub type Options = toml::Table;

pub(super) type RawOptions = BTreeMap<Spanned<String>, Spanned<Value>>;
pub(super) type RawMatrix = BTreeMap<Spanned<String>, Spanned<Vec<Spanned<Value>>>>;

/// Overrides `base` with `over`. `runtime` and `count` replace each other, as do `direct` and `buffered`.
pub fn overlay(base: &mut Options, over: &Options) {
    const EITHER: [(&str, &str); 2] = [("runtime", "count"), ("direct", "buffered")];
    for (one, other) in EITHER.into_iter().chain(EITHER.map(|(a, b)| (b, a))) {
        if over.contains_key(one) {
            base.remove(other);
        }
    }
    base.extend(over.clone());
}

/// Converts to JSON for the record.
pub fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(s) => serde_json::json!(s),
        Value::Integer(n) => serde_json::json!(n),
        Value::Float(x) => serde_json::json!(x),
        Value::Boolean(b) => serde_json::json!(b),
        Value::Array(items) => items.iter().map(to_json).collect(),
        // No option accepts these types.
        other => serde_json::json!(other.to_string()),
    }
}

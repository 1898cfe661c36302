//! The sources that a text cites, as annotations of its block.

use deepagents_core::message::Text;
use serde_json::{Map, Value, json};

use crate::json::set;

/// Returns the annotations of a text, from the items of the providers that search and cite.
pub(super) fn annotations(text: &Text) -> Vec<Value> {
    let Some(native) = text.native.as_ref().map(|native| native.value()) else { return Vec::new() };
    let own = |item: &Value| -> Vec<Value> {
        let lists = ["citations", "annotations"].into_iter().filter_map(|key| item.get(key)?.as_array());
        lists.flatten().map(annotation).collect()
    };
    let parts = native.get("content").and_then(Value::as_array).into_iter().flatten();
    let cited = native.get("citationsContent");
    std::iter::once(native).chain(parts).chain(cited).flat_map(own).collect()
}

/// Converts a citation to LangChain's form. One without a source that can be named is kept as it is.
fn annotation(citation: &Value) -> Value {
    let fields = citation.get("url_citation").unwrap_or(citation);
    let mut out = Map::new();
    for (name, keys) in [
        ("url", &["url"][..]),
        ("title", &["title", "document_title", "filename"]),
        ("start_index", &["start_index"]),
        ("end_index", &["end_index"]),
        ("cited_text", &["cited_text"]),
    ] {
        let found = keys.iter().filter_map(|key| fields.get(*key)).find(|value| !value.is_null());
        out.extend(found.map(|value| (name.to_owned(), value.clone())));
    }
    if !out.contains_key("url") && !out.contains_key("title") {
        return json!({"type": "non_standard_annotation", "value": citation});
    }
    let mut out = Value::Object(out);
    set(&mut out, "type", "citation");
    out
}

//! Adapts argument schemas to providers. A schema that a provider refuses fails every request of a run, not only the
//! calls of its tool.

mod rename;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::tool::{SchemaCheck, check_schema, one_object, part_at};
use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

/// Maximum size of a schema, in bytes. Every model call pays for it.
const MAX_SCHEMA_BYTES: usize = 100_000;
/// Maximum nesting depth of a schema, as JSON.
const MAX_DEPTH: usize = 64;
/// Maximum length of the text that describes a combination of schemas, in characters.
const MAX_DESCRIPTION_CHARS: usize = 600;

/// The arguments of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) schema: Arc<Value>,
    /// What the schema cannot express, for the description. Usually empty.
    pub(crate) words: String,
    /// The server's argument names by the names that the model sees, where they differ.
    renamed: BTreeMap<String, String>,
}

impl Arguments {
    /// Adapts the schema that a server declares. Valid parts stay unchanged; keywords of older drafts are converted to
    /// the current draft.
    ///
    /// # Errors
    /// Returns the reason why providers would refuse the schema.
    pub(crate) fn new(schema: &JsonObject) -> Result<Self, String> {
        if walk::depth(schema.values()) > MAX_DEPTH {
            return Err(format!("its schema is nested more than {MAX_DEPTH} levels deep"));
        }
        let whole = Value::Object(schema.clone());
        short(&whole)?;
        let mut schema = schema.clone();
        let words = crate::text::line(&one_object(&mut schema, &whole), MAX_DESCRIPTION_CHARS);
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            schema.insert("type".to_owned(), "object".into());
        }
        // Some providers refuse an object schema without `properties`.
        schema.entry("properties").or_insert_with(|| Map::new().into());
        walk::visit(&mut schema, &mut modern);
        let renamed = rename::legal(&mut schema)?;
        let mut dangling = None;
        walk::visit(&mut schema.clone(), &mut |part| {
            dangling = dangling.take().or_else(|| dangles(part, &schema));
        });
        if let Some(reference) = dangling {
            return Err(format!("its schema refers to `{}`, which does not exist", crate::text::line(&reference, 100)));
        }
        let schema = Value::Object(schema);
        check_schema(&schema).map_err(|why| format!("its schema is not valid: {}", crate::text::line(&why, 300)))?;
        // Resolved references are inlined by now, so the size is checked again.
        short(&schema)?;
        Ok(Self { schema: Arc::new(schema), words, renamed })
    }

    /// Renames arguments to the server's own names.
    pub(crate) fn to_server_names(&self, args: JsonObject) -> JsonObject {
        if self.renamed.is_empty() {
            return args;
        }
        let theirs = |(name, value): (String, Value)| (self.renamed.get(&name).cloned().unwrap_or(name), value);
        args.into_iter().map(theirs).collect()
    }
}

fn short(schema: &Value) -> Result<(), String> {
    match schema.to_string().len() {
        0..=MAX_SCHEMA_BYTES => Ok(()),
        length => Err(format!("its schema is too long: {length} bytes")),
    }
}

/// Converts a subschema to the current draft.
fn modern(part: &mut Map<String, Value>) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let Some(excludes) = part.get(exclusive).and_then(Value::as_bool) else { continue };
        part.remove(exclusive);
        if let Some(number) = part.get(bound).filter(|_| excludes).cloned() {
            part.remove(bound);
            part.insert(exclusive.to_owned(), number);
        }
    }
    if part.get("items").is_some_and(Value::is_array) {
        let tuple = part.remove("items").unwrap_or_default();
        part.insert("prefixItems".to_owned(), tuple);
        if let Some(rest) = part.remove("additionalItems") {
            part.insert("items".to_owned(), rest);
        }
    }
    // PHP encodes an empty object as an array.
    if part.get("properties").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        part.insert("properties".to_owned(), Map::new().into());
    }
    // Providers would refuse the invalid pattern. The server checks the value itself.
    if part.get("pattern").is_some_and(|pattern| !is_pattern(pattern)) {
        part.remove("pattern");
    }
    // The schema no longer follows the older draft that it names.
    if part.get("$schema").and_then(Value::as_str).is_some_and(|draft| draft.contains("draft-0")) {
        part.remove("$schema");
    }
}

fn is_pattern(pattern: &Value) -> bool {
    SchemaCheck::new(Arc::new(json!({"pattern": pattern}))).check(&Value::Null).is_ok()
}

/// Returns the reference of a subschema if it points to a missing part of this schema. External references are not
/// checked.
fn dangles(part: &Map<String, Value>, schema: &Map<String, Value>) -> Option<String> {
    let reference = part.get("$ref")?.as_str()?;
    let place = reference.strip_prefix("#/")?;
    part_at(schema, place).is_none().then(|| reference.to_owned())
}

//! Finds the fields of a value that its schema accepts without naming them.

use serde_json::Value;

/// Maximum number of schemas visited for one value, and maximum depth of the value.
const PARTS: usize = 1_000;
const DEEPEST: usize = 64;
/// Maximum number of fields listed, and of characters shown of each.
const LISTED: usize = 10;
const SHOWN: usize = 100;

/// Lists the fields of a value, at any depth, that its schema does not name, as text. Returns `None` if it names all of
/// them.
///
/// Any field is accepted in an object whose schema allows others by `additionalProperties`, `unevaluatedProperties` or
/// `patternProperties`, has a reference that cannot be resolved, or names no properties at all.
///
/// ```
/// use deepagents_core::tool::unnamed_fields;
/// use serde_json::json;
/// let schema = json!({"allOf": [{"properties": {"to": {}}}, {"properties": {"text": {}}}]});
/// assert_eq!(unnamed_fields(&schema, &json!({"to": "Ann", "text": "Hi."})), None);
/// assert_eq!(unnamed_fields(&schema, &json!({"to": "Ann", "cc": "Bob"})).as_deref(), Some("`cc`"));
/// ```
pub fn unnamed_fields(schema: &Value, value: &Value) -> Option<String> {
    let mut walk = Walk { whole: schema, parts: PARTS, found: Vec::new() };
    walk.value(&[schema], value, "", DEEPEST);
    let found = walk.found;
    let shown: Vec<String> = found.iter().take(LISTED).map(|place| format!("`{}`", shortened(place))).collect();
    let more = found.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| shown.join(", ") + &more)
}

fn shortened(place: &str) -> String {
    match place.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", place.get(..at).unwrap_or_default()),
        None => place.to_owned(),
    }
}

struct Walk<'a> {
    whole: &'a Value,
    /// Number of schemas that may still be visited.
    parts: usize,
    found: Vec<String>,
}

/// A place in a value, with all schemas that apply to it.
struct Place<'a> {
    schemas: Vec<&'a Value>,
    /// Whether fields that none of the schemas names are accepted.
    is_open: bool,
}

impl<'a> Walk<'a> {
    fn value(&mut self, schemas: &[&'a Value], value: &Value, at: &str, deepest: usize) {
        let Some(deepest) = deepest.checked_sub(1) else { return };
        let place = self.place(schemas);
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let named = |schema: &&'a Value| schema.get("properties")?.get(name);
                    let about: Vec<&'a Value> = place.schemas.iter().filter_map(named).collect();
                    let at = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
                    match about.is_empty() {
                        true if place.is_open => {}
                        true => self.found.push(at),
                        false => self.value(&about, field, &at, deepest),
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let about = |schema: &&'a Value| {
                        schema.get("prefixItems").and_then(|items| items.get(index)).or_else(|| schema.get("items"))
                    };
                    let about: Vec<&'a Value> = place.schemas.iter().filter_map(about).collect();
                    self.value(&about, item, &format!("{at}/{index}"), deepest);
                }
            }
            _ => {}
        }
    }

    /// Collects all schemas that apply to a place: parts of combinations and targets of references.
    fn place(&mut self, schemas: &[&'a Value]) -> Place<'a> {
        let mut place = Place { schemas: Vec::new(), is_open: false };
        let mut waiting = schemas.to_vec();
        while let Some(schema) = waiting.pop() {
            if place.schemas.iter().any(|known| std::ptr::eq(*known, schema)) {
                continue;
            }
            let Some(left) = self.parts.checked_sub(1) else {
                place.is_open = true;
                break;
            };
            self.parts = left;
            place.schemas.push(schema);
            let Value::Object(keywords) = schema else {
                place.is_open |= *schema == Value::Bool(true);
                continue;
            };
            for (keyword, about) in keywords {
                match (keyword.as_str(), about) {
                    ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => waiting.extend(parts),
                    ("if" | "then" | "else", part) => waiting.push(part),
                    ("dependentSchemas", Value::Object(parts)) => waiting.extend(parts.values()),
                    ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                        match self.target(reference) {
                            Some(target) => waiting.push(target),
                            // The target is unknown, so it may name any field.
                            None => place.is_open = true,
                        }
                    }
                    ("patternProperties", _) => place.is_open = true,
                    ("additionalProperties" | "unevaluatedProperties", about) => {
                        place.is_open |= *about != Value::Bool(false);
                    }
                    _ => {}
                }
            }
        }
        place.is_open |= !place.schemas.iter().any(|schema| schema.get("properties").is_some());
        place
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        match (reference.strip_prefix('#')?, self.whole) {
            ("", whole) => Some(whole),
            (place, Value::Object(whole)) => super::part_at(whole, place.strip_prefix('/')?),
            _ => None,
        }
    }
}

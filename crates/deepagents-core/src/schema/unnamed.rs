//! Finds the fields of a value that its schema accepts without naming them.

use std::collections::{HashMap, HashSet};
use std::ptr;
use std::rc::Rc;

use serde_json::Value;

use super::target;

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
    let mut walk = Walk { whole: schema, places: HashMap::new(), found: Vec::new() };
    walk.value(&[schema], value, "");
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
    /// The places visited so far, by the addresses of the schemas that name them. Long values visit few places often,
    /// such as the items of a list.
    places: HashMap<Vec<*const Value>, Rc<Place<'a>>>,
    found: Vec<String>,
}

/// A place in a value, with all schemas that apply to it.
#[derive(Default)]
struct Place<'a> {
    schemas: Vec<&'a Value>,
    /// Whether fields that none of the schemas names are accepted.
    is_open: bool,
}

impl<'a> Walk<'a> {
    fn value(&mut self, schemas: &[&'a Value], value: &Value, at: &str) {
        match value {
            Value::Object(fields) => {
                let place = self.place(schemas);
                for (name, field) in fields {
                    let about: Vec<&'a Value> =
                        place.schemas.iter().filter_map(|schema| schema.get("properties")?.get(name)).collect();
                    let at = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
                    match about.is_empty() {
                        true if place.is_open => {}
                        true => self.found.push(at),
                        false => self.value(&about, field, &at),
                    }
                }
            }
            Value::Array(items) => {
                let place = self.place(schemas);
                for (index, item) in items.iter().enumerate() {
                    let about = |schema: &&'a Value| {
                        schema.get("prefixItems").and_then(|items| items.get(index)).or_else(|| schema.get("items"))
                    };
                    let about: Vec<&'a Value> = place.schemas.iter().filter_map(about).collect();
                    self.value(&about, item, &format!("{at}/{index}"));
                }
            }
            _ => {}
        }
    }

    fn place(&mut self, schemas: &[&'a Value]) -> Rc<Place<'a>> {
        let names = schemas.iter().map(|schema| ptr::from_ref(*schema)).collect();
        self.places.entry(names).or_insert_with(|| Rc::new(Place::new(self.whole, schemas))).clone()
    }
}

impl<'a> Place<'a> {
    /// Collects all schemas that apply to a place: parts of combinations and targets of references.
    fn new(whole: &'a Value, schemas: &[&'a Value]) -> Self {
        let mut place = Self::default();
        let mut known: HashSet<*const Value> = HashSet::new();
        let mut waiting = schemas.to_vec();
        while let Some(schema) = waiting.pop() {
            if !known.insert(ptr::from_ref(schema)) {
                continue;
            }
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
                        match target(whole, reference) {
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
}

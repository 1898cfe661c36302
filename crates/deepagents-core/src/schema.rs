//! JSON schemas: generating short ones from Rust types, and checking values against them.

mod combine;
mod unnamed;

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

pub(crate) use combine::target;
pub use combine::{one_object, part_at};
pub use unnamed::unnamed_fields;

use crate::panics::lock;

/// The schemas of a type.
#[derive(Clone)]
struct Made {
    /// The schema of its values.
    values: Arc<Value>,
    /// The schema of arguments that are read as one value.
    args: Arc<Value>,
}

/// Returns the JSON schema of a type. Subschemas are inlined, and titles, number formats and null defaults are removed,
/// because every token of a schema is paid for on every call.
///
/// A type without content, such as `()`, becomes an object without fields. An enum of objects becomes one object with
/// the fields of all variants, because providers reject alternatives there; its description says which fields belong
/// together.
pub fn schema_of<T: JsonSchema + 'static>() -> Arc<Value> {
    made::<T>().args
}

/// Returns the schema of the values themselves: null for `()`, and alternatives for an enum.
pub(crate) fn value_schema_of<T: JsonSchema + 'static>() -> Arc<Value> {
    made::<T>().values
}

fn made<T: JsonSchema + 'static>() -> Made {
    // Agents are built often, but there are few types.
    static CACHE: LazyLock<Mutex<HashMap<TypeId, Made>>> = LazyLock::new(Mutex::default);
    if let Some(known) = lock(&CACHE).get(&TypeId::of::<T>()) {
        return known.clone();
    }
    // Made while nothing is locked: the type may use the schemas of other types.
    let values = Arc::new(make::<T>());
    let made = Made { args: as_args(&values), values };
    lock(&CACHE).entry(TypeId::of::<T>()).or_insert(made).clone()
}

/// Returns whether a schema combines alternatives.
pub(crate) fn has_alternatives(schema: &Value) -> bool {
    ["oneOf", "anyOf", "allOf"].iter().any(|keyword| schema.get(keyword).is_some())
}

/// Returns the schema of the object that a model sends for a value.
pub(crate) fn as_args(values: &Arc<Value>) -> Arc<Value> {
    if is_unit(values) {
        return Arc::new(json!({"type": "object", "properties": {}}));
    }
    match &**values {
        Value::Object(map) if has_alternatives(values) && map.get("type").is_some_and(|kind| kind == "object") => {
            let mut map: Map<String, Value> = map.clone();
            let words = one_object(&mut map, values);
            let described = map.get("description").and_then(Value::as_str).map(|own| format!("{own} {words}"));
            if !words.is_empty() {
                map.insert("description".to_owned(), described.unwrap_or(words).into());
            }
            let mut args = Value::Object(map);
            shorten(&mut args);
            Arc::new(args)
        }
        _ => values.clone(),
    }
}

/// Returns whether the schema accepts only null.
pub(crate) fn is_unit(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

fn make<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let mut value = settings.into_generator().into_root_schema_for::<T>().to_value();
    let description = value.get("description").cloned();
    shorten(&mut value);
    if let Value::Object(map) = &mut value {
        map.remove("$schema");
        // The type's doc comment describes the Rust type, not the arguments.
        if description.is_some() {
            map.remove("description");
        }
    }
    if takes_objects(&value, &value, MAX_HOPS)
        && let Value::Object(map) = &mut value
        && !map.contains_key("properties")
    {
        map.insert("type".into(), "object".into());
        map.insert("properties".into(), Value::Object(Map::new()));
    }
    value
}

/// Maximum bytes of an invalid value to show in an error.
const MAX_SHOWN_BYTES: usize = 200;
/// Maximum number of problems to show in an error.
const MAX_SHOWN_PROBLEMS: usize = 20;
/// Maximum nesting of alternatives and references before a schema names a type.
const MAX_HOPS: usize = 8;

/// Returns whether the schema accepts only objects, or anything.
fn takes_objects(root: &Value, schema: &Value, hops: usize) -> bool {
    let Some(hops) = hops.checked_sub(1) else { return false };
    let all = |name: &str| {
        let parts = schema.get(name)?.as_array()?;
        Some(parts.iter().all(|part| takes_objects(root, part, hops)))
    };
    if let Some(kind) = schema.get("type") {
        return kind == "object";
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return target(root, reference).is_some_and(|there| takes_objects(root, there, hops));
    }
    if let Some(constant) = schema.get("const") {
        return constant.is_object();
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values.iter().all(Value::is_object);
    }
    all("oneOf").or_else(|| all("anyOf")).or_else(|| all("allOf")).unwrap_or(true)
}

fn shorten(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for keyword in ["oneOf", "anyOf"] {
                if let Some(enum_values) = map.get(keyword).and_then(enum_values) {
                    map.remove(keyword);
                    map.insert("type".into(), "string".into());
                    map.insert("enum".into(), enum_values);
                }
            }
            if map.get("title").is_some_and(Value::is_string) {
                map.remove("title");
            }
            if map
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|f| f.starts_with("uint") || f.starts_with("int") || f == "float" || f == "double")
            {
                map.remove("format");
            }
            if map.get("default").is_some_and(Value::is_null) {
                map.remove("default");
            }
            map.values_mut().for_each(shorten);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        _ => {}
    }
}

/// Returns the values of an enum with documented variants, for which a schema per variant is generated.
fn enum_values(variants: &Value) -> Option<Value> {
    let word = |v: &Value| v.get("const").filter(|c| c.is_string()).cloned();
    variants.as_array()?.iter().map(word).collect::<Option<Vec<_>>>().map(Value::Array)
}

/// Checks that a value is a JSON schema (2020-12), as most providers do before they answer. References are not
/// followed.
///
/// # Errors
/// Returns the first problem, with its location.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    jsonschema::draft202012::meta::validate(schema).map_err(|error| match error.instance_path().to_string() {
        at if at.is_empty() => error.to_string(),
        at => format!("{error} at `{at}`"),
    })
}

/// A JSON schema, compiled on first use.
#[derive(Debug)]
pub struct SchemaCheck {
    schema: Arc<Value>,
    compiled: OnceLock<Result<jsonschema::Validator, String>>,
}

impl SchemaCheck {
    /// Creates a check for a schema.
    pub fn new(schema: Arc<Value>) -> Self {
        Self { schema, compiled: OnceLock::new() }
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Arc<Value> {
        &self.schema
    }

    /// Checks a value.
    ///
    /// # Errors
    /// Returns the problems with their locations, up to twenty, or that the schema itself is not valid.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let validator = self.validator().map_err(|e| format!("the schema is not valid: {e}"))?;
        let shown = |e: jsonschema::ValidationError<'_>| {
            let at = e.instance_path().to_string();
            // Whoever sent a long value knows it already.
            let is_long = e.instance().to_string().len() > MAX_SHOWN_BYTES;
            let why = if is_long { e.masked_with("what was given").to_string() } else { e.to_string() };
            if at.is_empty() { why } else { format!("{why} at `{at}`") }
        };
        let mut errors = validator.iter_errors(value);
        let mut problems: Vec<String> = errors.by_ref().take(MAX_SHOWN_PROBLEMS).map(shown).collect();
        let more = errors.count();
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    /// Compiles the schema now.
    ///
    /// # Errors
    /// Returns the problem if the schema is not valid.
    pub fn compile(&self) -> Result<(), String> {
        self.validator().map(|_| ()).map_err(Clone::clone)
    }

    fn validator(&self) -> Result<&jsonschema::Validator, &String> {
        let compiled = self.compiled.get_or_init(|| jsonschema::validator_for(&self.schema).map_err(|e| e.to_string()));
        compiled.as_ref()
    }
}

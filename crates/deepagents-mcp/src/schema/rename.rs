//! Renames arguments whose names providers refuse.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::text;

/// Maximum length of an argument name that providers accept.
const MAX_NAME_LENGTH: usize = 64;
/// Keywords that refer to arguments by name, besides `properties` and `required`.
const ABOUT_NAMES: [&str; 8] = [
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "patternProperties",
    "propertyNames",
    "then",
];

/// Renames arguments whose names providers refuse. Returns the server's names by the new ones.
///
/// # Errors
/// Returns an error if the schema refers to an argument by name in a keyword that cannot be renamed.
pub(super) fn legal(schema: &mut Map<String, Value>) -> Result<BTreeMap<String, String>, String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(BTreeMap::new()) };
    let Some(odd) = properties.keys().find(|name| !is_legal(name)) else { return Ok(BTreeMap::new()) };
    if let Some(keyword) = ABOUT_NAMES.iter().find(|keyword| schema.contains_key(**keyword)) {
        let odd = text::line(odd, 100);
        return Err(format!(
            "providers refuse the name of its argument `{odd}`, which `{keyword}` in its schema refers to"
        ));
    }
    let mut taken: BTreeSet<String> = properties.keys().filter(|name| is_legal(name)).cloned().collect();
    let mut renamed = BTreeMap::new();
    let mut made = Map::new();
    for (name, property) in properties {
        if is_legal(name) {
            made.insert(name.clone(), property.clone());
            continue;
        }
        let ours = free(name, &taken);
        taken.insert(ours.clone());
        made.insert(ours.clone(), described(property, name));
        renamed.insert(ours, name.clone());
    }
    let ours = |name: &str| renamed.iter().find(|(_, theirs)| *theirs == name).map(|(ours, _)| ours.clone());
    for name in schema.get_mut("required").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(ours) = name.as_str().and_then(ours) {
            *name = ours.into();
        }
    }
    schema.insert("properties".to_owned(), made.into());
    Ok(renamed)
}

fn is_legal(name: &str) -> bool {
    (1..=MAX_NAME_LENGTH).contains(&name.len()) && name.chars().all(is_taken)
}

fn is_taken(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.-".contains(c)
}

/// Returns a similar name that is not taken.
fn free(name: &str, taken: &BTreeSet<String>) -> String {
    let plain: String = name.chars().map(|c| if is_taken(c) { c } else { '_' }).take(MAX_NAME_LENGTH).collect();
    let numbered = (2..).map(|number| {
        let mark = format!("_{number}");
        let kept: String = plain.chars().take(MAX_NAME_LENGTH - mark.len()).collect();
        format!("{kept}{mark}")
    });
    let first = Some(plain.clone()).filter(|plain| !plain.is_empty());
    first.into_iter().chain(numbered).find(|name| !taken.contains(name)).unwrap_or(plain)
}

/// Adds the server's own name to the description of a property.
fn described(property: &Value, name: &str) -> Value {
    let mut property = property.clone();
    let name = text::line(name, 100);
    match &mut property {
        Value::Object(fields) => {
            let said = fields.get("description").and_then(Value::as_str).map(|said| format!(": {said}"));
            fields.insert("description".to_owned(), format!("`{name}`{}", said.unwrap_or_default()).into());
            property
        }
        Value::Bool(true) => json!({"description": format!("`{name}`")}),
        _ => property,
    }
}

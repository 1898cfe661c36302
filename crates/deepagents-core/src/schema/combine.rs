//! Merges combined schemas: providers accept only a plain object for arguments.

use serde_json::{Map, Value, json};

/// Maximum depth of nested combinations.
const MAX_DEPTH: usize = 8;
/// Maximum number of parts in total. Recursive combinations multiply at each level.
const MAX_PARTS: usize = 1_000;

/// Turns a schema that is a reference or a combination into one object with the properties of all parts. Returns
/// further constraints as text, which is usually empty. `whole` is the schema that references point into.
pub fn one_object(schema: &mut Map<String, Value>, whole: &Value) -> String {
    resolve(schema, whole);
    let (mut notes, mut parts) = (Vec::new(), MAX_PARTS);
    merge(schema, whole, &mut notes, &mut parts, MAX_DEPTH);
    for keyword in ["not", "enum", "const"] {
        schema.remove(keyword);
    }
    notes.join(" ")
}

/// Returns the value at a place in a schema, given as a JSON pointer without its leading `/` and escaped as in
/// references.
pub fn part_at<'a>(schema: &'a Map<String, Value>, place: &str) -> Option<&'a Value> {
    let place = place.replace("%24", "$").replace("%20", " ");
    let (first, rest) = place.split_once('/').map_or((&*place, None), |(first, rest)| (first, Some(rest)));
    let part = schema.get(&first.replace("~1", "/").replace("~0", "~"))?;
    rest.map_or(Some(part), |rest| part.pointer(&format!("/{rest}")))
}

/// Returns the part of a schema that a reference within it names.
pub(crate) fn target<'a>(whole: &'a Value, reference: &str) -> Option<&'a Value> {
    match reference.strip_prefix('#')? {
        "" => Some(whole),
        place => part_at(whole.as_object()?, place.strip_prefix('/')?),
    }
}

/// Replaces a reference with its target.
fn resolve(schema: &mut Map<String, Value>, whole: &Value) {
    for _ in 0..MAX_DEPTH {
        let reference = schema.get("$ref").and_then(Value::as_str).filter(|reference| *reference != "#");
        let target = reference.and_then(|reference| target(whole, reference));
        let Some(target) = target.and_then(Value::as_object).cloned() else { return };
        schema.remove("$ref");
        for (keyword, value) in target {
            schema.entry(keyword).or_insert(value);
        }
    }
}

fn merge(
    schema: &mut Map<String, Value>,
    whole: &Value,
    notes: &mut Vec<String>,
    parts: &mut usize,
    depth_left: usize,
) {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let Some(branches) = schema.get(keyword).and_then(Value::as_array).cloned() else { continue };
        schema.remove(keyword);
        let mut objects = Vec::new();
        for part in &branches {
            let Some(left) = parts.checked_sub(1) else { break };
            *parts = left;
            objects.extend(branch(part, whole, notes, parts, depth_left));
        }
        // If a part accepts additional properties, so does the merged object.
        let is_open = |part: &Map<String, Value>| {
            part.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false))
                || part.contains_key("patternProperties")
        };
        if objects.iter().any(is_open) {
            schema.entry("additionalProperties").or_insert(Value::Bool(true));
        }
        properties(schema, &objects, keyword == "allOf");
        required(schema, &objects, keyword == "allOf");
        notes.extend(choice(&objects, keyword));
    }
}

/// Returns a part of a combination as one object, or `None` if it does not describe an object.
fn branch(
    branch: &Value,
    whole: &Value,
    notes: &mut Vec<String>,
    parts: &mut usize,
    depth_left: usize,
) -> Option<Map<String, Value>> {
    let mut branch = branch.as_object()?.clone();
    resolve(&mut branch, whole);
    let is_object = match branch.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
        None => true,
    };
    if depth_left > 0 {
        merge(&mut branch, whole, notes, parts, depth_left - 1);
    }
    is_object.then_some(branch)
}

fn of(branch: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    branch.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Adds the properties of the parts. A property of several parts must match any of them, or all of them if `all` is
/// set.
fn properties(schema: &mut Map<String, Value>, branches: &[Map<String, Value>], all: bool) {
    let mut found: Map<String, Value> = Map::new();
    let mut kinds: Vec<(String, Vec<Value>)> = Vec::new();
    for (name, property) in branches.iter().flat_map(of) {
        match kinds.iter_mut().find(|(known, _)| known == name) {
            Some((_, several)) if several.contains(property) => {}
            Some((_, several)) => several.push(property.clone()),
            None => kinds.push((name.clone(), vec![property.clone()])),
        }
    }
    let own = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, mut several) in kinds {
        match own.get(&name).filter(|own| own.as_object().is_some_and(|own| !own.is_empty())) {
            Some(own) if all && !several.contains(own) => several.insert(0, own.clone()),
            Some(_) => continue,
            None => {}
        }
        let keyword = if all { "allOf" } else { "anyOf" };
        let property = if several.len() == 1 { several.pop() } else { Some(json!({keyword: several})) };
        found.extend(property.map(|property| (name, property)));
    }
    if found.is_empty() {
        return;
    }
    let mut own = own;
    own.extend(found);
    schema.insert("properties".to_owned(), own.into());
}

fn names(branch: &Map<String, Value>) -> Vec<String> {
    let required = branch.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Adds required properties: those of every part if `all` is set, otherwise those that all parts require.
fn required(schema: &mut Map<String, Value>, branches: &[Map<String, Value>], all: bool) {
    let wanted: Vec<String> = match (branches, all) {
        ([], _) => return,
        (_, true) => branches.iter().flat_map(names).collect(),
        ([first, rest @ ..], false) => {
            names(first).into_iter().filter(|name| rest.iter().all(|branch| names(branch).contains(name))).collect()
        }
    };
    if wanted.is_empty() || !schema.get("required").is_none_or(Value::is_array) {
        return;
    }
    let mut own = names(schema);
    for name in wanted {
        if !own.contains(&name) {
            own.push(name);
        }
    }
    schema.insert("required".to_owned(), json!(own));
}

/// Describes what a single object cannot express about a choice.
fn choice(branches: &[Map<String, Value>], keyword: &str) -> Option<String> {
    let sets = branches.iter().map(|branch| {
        let required = names(branch);
        let named = match required.is_empty() {
            true => of(branch).map(|(name, _)| name.clone()).collect(),
            false => required,
        };
        // A constant property identifies the set.
        let with_value = |name: String| {
            let constant =
                of(branch).find(|(known, _)| **known == name).and_then(|(_, property)| property.get("const"));
            match constant.filter(|value| value.is_string()) {
                Some(value) => format!("{name} {value}"),
                None => name,
            }
        };
        let set: Vec<String> = named.into_iter().map(with_value).collect();
        // Every token of a schema is paid for on every call, so only the first line of the description is used.
        let about = branch.get("description").and_then(Value::as_str).and_then(|about| about.lines().next());
        match about.filter(|_| !set.is_empty()) {
            Some(about) => format!("{} ({about})", set.join(", ")),
            None => set.join(", "),
        }
    });
    let mut sets: Vec<String> = sets.filter(|set| !set.is_empty()).collect();
    sets.dedup();
    let how = match keyword {
        "anyOf" => "at least",
        "oneOf" => "exactly",
        _ => return None,
    };
    (sets.len() > 1).then(|| format!("Give {how} one of these sets of arguments: {}.", sets.join("; ")))
}

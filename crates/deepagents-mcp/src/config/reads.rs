//! Finds the environment variables that an entry refers to.

use std::cell::RefCell;

use serde_json::Value;

use super::expand::Variables;
use super::file::Entry;

impl Entry {
    /// Returns the environment variables that the entry refers to, each with the field that its value goes into, such
    /// as `headers.X-Key`.
    ///
    /// ```
    /// use deepagents_mcp::Entry;
    /// let entry: Entry = serde_json::from_str(r#"{"url": "https://a.example", "headers": {"X": "${KEY}-${ID:-none}"}}"#)?;
    /// let read = ["KEY", "ID"].map(|name| (name.to_owned(), "headers.X".to_owned()));
    /// assert_eq!(entry.reads(), read);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn reads(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let fields = serde_json::to_value(self).unwrap_or_default();
        for (name, value) in fields.as_object().into_iter().flatten() {
            match value {
                Value::Object(inside) => {
                    inside
                        .iter()
                        .for_each(|(key, value)| collect_variables(value, &format!("{name}.{key}"), &mut found));
                }
                value => collect_variables(value, name, &mut found),
            }
        }
        found
    }
}

/// Collects the variables that a value refers to.
fn collect_variables(value: &Value, part: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => {
            let names = RefCell::new(Vec::new());
            let lookup = |name: &str| {
                names.borrow_mut().push(name.to_owned());
                None
            };
            Variables::new(&lookup).expand(text);
            for name in names.into_inner() {
                let read = (name, part.to_owned());
                if !found.contains(&read) {
                    found.push(read);
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| collect_variables(value, part, found)),
        Value::Object(all) => all.values().for_each(|value| collect_variables(value, part, found)),
        _ => {}
    }
}

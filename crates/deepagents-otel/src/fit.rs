//! Cuts values and texts to the size of an attribute.

use serde_json::Value;

/// Appended to a text that was cut within a value.
const MORE: &str = "…";

/// Cuts a value so that its JSON has at most `limit` bytes. Its longest texts are cut first, which keeps its structure.
/// If it has too many small parts for that, the result is the beginning of its JSON, as a string.
pub(crate) fn value(value: Value, limit: usize) -> Value {
    let mut fitted = value;
    let (mut most, mut length) = (limit, json_length(&fitted));
    while length > limit && most > 0 {
        most /= 2;
        shorten(&mut fitted, most);
        length = json_length(&fitted);
    }
    if length <= limit {
        return fitted;
    }
    let whole = fitted.to_string();
    let mut most = limit;
    loop {
        let beginning = Value::String(text(whole.clone(), most));
        if most == 0 || json_length(&beginning) <= limit {
            return beginning;
        }
        most /= 2;
    }
}

/// Cuts a text to at most `limit` bytes, on a character boundary.
pub(crate) fn text(mut text: String, limit: usize) -> String {
    text.truncate(text.floor_char_boundary(limit));
    text
}

fn json_length(value: &Value) -> usize {
    value.to_string().len()
}

/// Cuts each text in a value to `most` bytes.
fn shorten(value: &mut Value, most: usize) {
    match value {
        Value::String(long) if long.len() > most + MORE.len() => {
            *long = text(std::mem::take(long), most) + MORE;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, most)),
        Value::Object(fields) => fields.values_mut().for_each(|item| shorten(item, most)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shortening_a_value_keeps_it_valid_within_the_limit() {
        let long = json!({"path": "/a.txt", "content": "é\n".repeat(1_000), "more": ["x".repeat(1_000)]});
        let fitted = value(long, 500);
        assert!(json_length(&fitted) <= 500, "{fitted}");
        assert_eq!(fitted["path"], "/a.txt");
        assert!(fitted["content"].as_str().is_some_and(|text| text.starts_with("é\n") && text.ends_with(MORE)));
        let many = value(json!((0..10_000).collect::<Vec<_>>()), 100);
        assert!(json_length(&many) <= 100 && many.as_str().is_some_and(|text| text.starts_with("[0,1,2,")), "{many}");
        assert_eq!(value(json!({"a": 1}), 100), json!({"a": 1}));
        assert_eq!(value(json!({"a": 1}), 0), json!(""));
    }
}

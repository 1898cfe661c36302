//! Cuts off JSON that is nested too deeply.

/// Replaces everything below `most` levels with `null`.
pub(super) fn shallow(text: &str, most: usize) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for c in text.chars() {
        let above = depth <= most;
        match c {
            _ if escaped => escaped = false,
            '\\' if in_text => escaped = true,
            '"' => in_text = !in_text,
            '{' | '[' if !in_text => {
                depth += 1;
                if depth == most + 1 {
                    kept.push_str("null");
                }
            }
            '}' | ']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if above && depth <= most {
            kept.push(c);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_nested_too_deeply_become_null_and_the_rest_is_kept() {
        assert_eq!(shallow(r#"{"a":[[1],{"b":"]}"}],"ü\"{":2}"#, 2), r#"{"a":[null,null],"ü\"{":2}"#);
        assert_eq!(shallow(r#"{"a":[[1]]}"#, 3), r#"{"a":[[1]]}"#);
        assert_eq!(shallow("[[[[", 2), "[[null");
    }
}

//! Variables in configuration: `${NAME}` and `${NAME:-default}`.

/// The text with its variables replaced by what `lookup` knows of them. A default stands in for a variable that is not
/// set or empty; anything else with a dollar stays as it is.
///
/// # Errors
/// The name of a variable that is not set and has no default.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inside, behind)) = after.split_once('}').filter(|(inside, _)| is_reference(inside)) else {
            out.push_str("${");
            rest = after;
            continue;
        };
        rest = behind;
        match inside.split_once(":-") {
            Some((name, default)) => {
                let value = lookup(name).filter(|value| !value.is_empty());
                out.push_str(value.as_deref().unwrap_or(default));
            }
            None => out.push_str(&lookup(inside).ok_or_else(|| inside.to_owned())?),
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn is_reference(inside: &str) -> bool {
    let name = inside.split_once(":-").map_or(inside, |(name, _)| name);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Result<String, String> {
        expand(text, &|name| match name {
            "OUTER" => Some("outer value".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn variables_and_defaults_are_put_in() {
        assert_eq!(made("pre-${OUTER}-post").as_deref(), Ok("pre-outer value-post"));
        assert_eq!(made("${NONE:-fallback}${NONE:-}").as_deref(), Ok("fallback"));
        assert_eq!(made("${EMPTY:-was empty}${EMPTY}").as_deref(), Ok("was empty"));
        assert_eq!(made("${NONE}"), Err("NONE".to_owned()));
    }

    #[test]
    fn other_dollars_stay() {
        for text in ["$OUTER", "${1X}", "${", "a ${b c} d", "$${}"] {
            assert_eq!(made(text).as_deref(), Ok(text));
        }
        assert_eq!(made("${a ${OUTER}").as_deref(), Ok("${a outer value"));
    }
}

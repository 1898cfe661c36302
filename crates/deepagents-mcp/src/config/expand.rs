//! Variables in configuration files: `${NAME}` and `${NAME:-default}`. A default may contain variables too.

use std::cell::RefCell;

use crate::stdio::SAFE_VARIABLES;

/// Maximum nesting depth of defaults.
const MAX_DEPTH: usize = 8;

/// Replaces variables, and records the values inserted and the variables missing.
pub(super) struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    missing: RefCell<Vec<String>>,
    secrets: RefCell<Vec<String>>,
}

impl<'a> Variables<'a> {
    /// Looks variables up with `lookup`.
    pub(super) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup, missing: RefCell::default(), secrets: RefCell::default() }
    }

    /// Replaces the variables in a text. A default applies if the variable is not set or empty. Any other dollar sign
    /// stays as it is.
    pub(super) fn expand(&self, text: &str) -> String {
        self.expanded(text, MAX_DEPTH)
    }

    fn expanded(&self, text: &str, levels: usize) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((inside, behind)) = inside(after).filter(|(inside, _)| levels > 0 && is_reference(inside)) else {
                out.push_str("${");
                rest = after;
                continue;
            };
            rest = behind;
            match inside.split_once(":-") {
                Some((name, default)) => {
                    let value = self.value(name).filter(|value| !value.is_empty());
                    out.push_str(&value.unwrap_or_else(|| self.expanded(default, levels - 1)));
                }
                None => match self.value(inside) {
                    Some(value) => out.push_str(&value),
                    None => {
                        let mut missing = self.missing.borrow_mut();
                        if !missing.iter().any(|name| name == inside) {
                            missing.push(inside.to_owned());
                        }
                    }
                },
            }
        }
        out.push_str(rest);
        out
    }

    fn value(&self, name: &str) -> Option<String> {
        let value = (self.lookup)(name)?;
        if !SAFE_VARIABLES.contains(&name) {
            self.secrets.borrow_mut().push(value.clone());
        }
        Some(value)
    }

    /// Returns the variables that are not set and have no default.
    pub(super) fn missing(&self) -> Vec<String> {
        self.missing.borrow().clone()
    }

    /// Returns the inserted values, except those of [`SAFE_VARIABLES`].
    pub(super) fn secrets(&self) -> Vec<String> {
        self.secrets.borrow().clone()
    }
}

/// Splits a text at the matching closing brace.
fn inside(text: &str) -> Option<(&str, &str)> {
    let mut open = 0_usize;
    for (at, found) in text.match_indices(['{', '}']) {
        match found {
            "{" if text.get(..at).is_some_and(|before| before.ends_with('$')) => open += 1,
            "}" if open == 0 => return Some((text.get(..at)?, text.get(at + 1..)?)),
            "}" => open -= 1,
            _ => {}
        }
    }
    None
}

fn is_reference(inside: &str) -> bool {
    let name = inside.split_once(":-").map_or(inside, |(name, _)| name);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Result<String, Vec<String>> {
        let lookup = |name: &str| match name {
            "OUTER" => Some("outer value".to_owned()),
            "EMPTY" => Some(String::new()),
            "HOME" => Some("/home/me".to_owned()),
            _ => None,
        };
        let variables = Variables::new(&lookup);
        let text = variables.expand(text);
        assert!(!variables.secrets().contains(&"/home/me".to_owned()));
        if variables.missing().is_empty() { Ok(text) } else { Err(variables.missing()) }
    }

    #[test]
    fn variables_and_defaults_are_expanded() {
        assert_eq!(made("pre-${OUTER}-post").as_deref(), Ok("pre-outer value-post"));
        assert_eq!(made("${NONE:-fallback}${NONE:-}").as_deref(), Ok("fallback"));
        assert_eq!(made("${EMPTY:-was empty}${EMPTY}").as_deref(), Ok("was empty"));
        assert_eq!(made("${NONE}${OTHER}${NONE}"), Err(vec!["NONE".to_owned(), "OTHER".to_owned()]));
        assert_eq!(made("${HOME}/x").as_deref(), Ok("/home/me/x"));
        assert_eq!(made("${NONE:-${OUTER}}!${OUTER:-${NONE}}").as_deref(), Ok("outer value!outer value"));
        assert_eq!(made("${NONE:-a${OTHER:-${HOME}}b}").as_deref(), Ok("a/home/meb"));
        assert_eq!(made("${NONE:-${OTHER}}"), Err(vec!["OTHER".to_owned()]));
    }

    #[test]
    fn other_dollar_signs_are_left_alone() {
        for text in ["$OUTER", "${1X}", "${", "a ${b c} d", "$${}"] {
            assert_eq!(made(text).as_deref(), Ok(text));
        }
        assert_eq!(made("${a ${OUTER}").as_deref(), Ok("${a outer value"));
    }
}

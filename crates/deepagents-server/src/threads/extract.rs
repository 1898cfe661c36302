//! Extraction of single values of a thread in a search, by paths such as `values.messages[-1].content`.

use serde_json::{Map, Value};

use crate::error::{ApiError, Result};

/// Maximum number of paths per search.
const MAX_PATHS: usize = 10;
/// The fields at which a path may begin.
const ROOTS: [&str; 5] = ["values", "metadata", "config", "interrupts", "error"];

/// Paths by the names under which their values are returned.
pub(super) struct Paths(Vec<(String, Vec<Step>)>);

enum Step {
    Key(String),
    /// An index in a list, counted from its end if negative.
    Index(i64),
}

impl Paths {
    /// Parses a client's paths.
    ///
    /// # Errors
    /// Returns an error if there are too many paths or one is invalid.
    pub(super) fn read(paths: &Map<String, Value>) -> Result<Self> {
        if paths.len() > MAX_PATHS {
            return Err(ApiError::invalid(format!("`extract` has {} paths; the maximum is {MAX_PATHS}", paths.len())));
        }
        let read = |(name, path): (&String, &Value)| {
            let steps = path.as_str().and_then(steps).ok_or_else(|| {
                let roots = ROOTS.join(", ");
                ApiError::invalid(format!(
                    "`extract.{name}` is not a path such as `values.messages[-1].content`; it must begin with one of {roots}"
                ))
            })?;
            Ok((name.clone(), steps))
        };
        paths.iter().map(read).collect::<Result<_>>().map(Self)
    }

    /// Extracts the values from a thread. A missing value is null.
    pub(super) fn of(&self, thread: &Value) -> Value {
        let one = |steps: &[Step]| steps.iter().try_fold(thread, |at, step| step.of(at)).cloned().unwrap_or_default();
        Value::Object(self.0.iter().map(|(name, steps)| (name.clone(), one(steps))).collect())
    }
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Key(key) => value.get(key),
            Self::Index(at) => {
                let list = value.as_array()?;
                let from_end = || list.len().checked_sub(usize::try_from(at.unsigned_abs()).ok()?);
                list.get(usize::try_from(*at).ok().or_else(from_end)?)
            }
        }
    }
}

/// Parses a path: keys after dots, indices in brackets.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, places) = part.split_at(part.find('[').unwrap_or(part.len()));
        if key.is_empty() || key.contains(']') {
            return None;
        }
        steps.push(Step::Key(key.to_owned()));
        let mut rest = places;
        while let Some(place) = rest.strip_prefix('[') {
            let (place, behind) = place.split_once(']')?;
            steps.push(Step::Index(place.parse().ok()?));
            rest = behind;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    let known = matches!(steps.first(), Some(Step::Key(root)) if ROOTS.contains(&root.as_str()));
    known.then_some(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_consists_of_keys_and_indexes_only() {
        let thread = json!({"values": {"messages": [{"content": "a"}, {"content": "b"}], "x": [[1, 2]]}});
        let of = |path: &str| {
            Paths::read(&Map::from_iter([("x".to_owned(), json!(path))])).map(|p| p.of(&thread)["x"].clone())
        };
        assert_eq!(of("values.messages[-1].content").unwrap(), "b");
        assert_eq!(of("values.messages[0].content").unwrap(), "a");
        assert_eq!(of("values.x[0][1]").unwrap(), 2);
        assert_eq!(of("values.messages[-3].content").unwrap(), Value::Null);
        assert_eq!(of("values.messages[9]").unwrap(), Value::Null);
        assert_eq!(of("values.messages[-9223372036854775808]").unwrap(), Value::Null);
        for path in
            ["", "x", "values.", "values..a", "values.a[", "values.a[x]", "values.a[0]b", "values.a]", ".values"]
        {
            assert!(of(path).is_err(), "{path}");
        }
    }
}

//! Sources of skills.

use deepagents_core::agent::BuildError;
use deepagents_fs::VPath;

/// A directory whose direct subdirectories are skills.
///
/// ```
/// use deepagents::middleware::skills::SkillSource;
/// let named: SkillSource = ("/project/skills", "House").into();
/// let plain: SkillSource = "/project/.claude/skills".into();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSource {
    path: String,
    label: Option<String>,
}

impl From<&str> for SkillSource {
    fn from(path: &str) -> Self {
        Self { path: path.to_owned(), label: None }
    }
}

impl From<String> for SkillSource {
    fn from(path: String) -> Self {
        Self { path, label: None }
    }
}

impl<P: Into<String>, L: Into<String>> From<(P, L)> for SkillSource {
    fn from((path, label): (P, L)) -> Self {
        Self { path: path.into(), label: Some(label.into()) }
    }
}

/// A source with a parsed path.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: VPath,
    pub(super) label: String,
}

impl Source {
    pub(super) fn parse(source: SkillSource) -> Result<Self, BuildError> {
        let path = VPath::parse(&source.path)
            .map_err(|error| BuildError::Option(format!("skills cannot have this path: {error}")))?;
        let label = source.label.map(|label| label.trim().to_owned()).filter(|label| !label.is_empty());
        Ok(Self { label: label.unwrap_or_else(|| derive_label(&path)), path })
    }
}

/// Derives a label from a path: the last component, or the one above if that is just `skills`.
fn derive_label(path: &VPath) -> String {
    let mut parts = path.components().rev();
    let label = match parts.next() {
        Some("built_in_skills") => "Built-in".to_owned(),
        Some("skills") => {
            let above = parts.next().unwrap_or_default();
            let above = above.strip_prefix('.').unwrap_or(above);
            let words = above.split(['_', '-', ' ']).filter(|word| !word.is_empty()).map(capital);
            words.collect::<Vec<_>>().join(" ")
        }
        Some(part) => capital(part),
        None => String::new(),
    };
    if label.is_empty() { "Unnamed".to_owned() } else { label }
}

/// Capitalizes a word.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    first + &letters.as_str().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_a_label_is_named_after_its_path() {
        let label = |path: &str| Source::parse(path.into()).unwrap().label;
        assert_eq!(label("/skills/user/"), "User");
        assert_eq!(label("/home/.claude/skills"), "Claude");
        assert_eq!(label("/my_team-tools/skills"), "My Team Tools");
        assert_eq!(label("/x/built_in_skills"), "Built-in");
        assert_eq!(label("/skills"), "Unnamed");
        assert_eq!(label("/"), "Unnamed");
        assert_eq!(Source::parse(("/skills", "Mine").into()).unwrap().label, "Mine");
    }
}

//! Queries for listing namespaces.

use super::Namespace;

/// Matches any label in a pattern.
const ANY: &str = "*";

/// A query for listing namespaces. In a pattern, `*` matches any label.
///
/// ```
/// use deepagents_core::store::NamespaceQuery;
/// // The notes of every user, whatever is below them.
/// let query = NamespaceQuery::default().prefix(["users", "*", "notes"]).depth(3);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamespaceQuery {
    /// Only namespaces that start with these labels.
    pub prefix: Vec<String>,
    /// Only namespaces that end with these labels.
    pub suffix: Vec<String>,
    /// Truncates namespaces to this number of labels, without duplicates.
    pub depth: Option<usize>,
    /// Maximum number of namespaces.
    pub limit: usize,
    /// Number of namespaces to skip.
    pub offset: usize,
}

impl Default for NamespaceQuery {
    fn default() -> Self {
        Self { prefix: Vec::new(), suffix: Vec::new(), depth: None, limit: usize::MAX, offset: 0 }
    }
}

impl NamespaceQuery {
    /// Selects namespaces that start with these labels.
    #[must_use]
    pub fn prefix(mut self, labels: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.prefix = labels.into_iter().map(Into::into).collect();
        self
    }

    /// Selects namespaces that end with these labels.
    #[must_use]
    pub fn suffix(mut self, labels: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.suffix = labels.into_iter().map(Into::into).collect();
        self
    }

    /// Truncates namespaces to this number of labels, without duplicates.
    #[must_use]
    pub fn depth(mut self, labels: usize) -> Self {
        self.depth = Some(labels);
        self
    }

    /// Sets the maximum number of namespaces.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the number of namespaces to skip.
    #[must_use]
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Returns the labels before the first wildcard, which all matching namespaces start with.
    pub(super) fn fixed(&self) -> &[String] {
        let until = self.prefix.iter().position(|label| label == ANY).unwrap_or(self.prefix.len());
        self.prefix.get(..until).unwrap_or_default()
    }

    /// Returns the matching ones of these sorted namespaces.
    pub(super) fn select(&self, namespaces: Vec<Namespace>) -> Vec<Namespace> {
        let mut found: Vec<Namespace> = namespaces.into_iter().filter(|namespace| self.matches(namespace)).collect();
        if let Some(depth) = self.depth {
            found.iter_mut().for_each(|namespace| namespace.truncate(depth));
            found.dedup();
        }
        found.into_iter().skip(self.offset).take(self.limit).collect()
    }

    fn matches(&self, namespace: &[String]) -> bool {
        let same = |(label, wanted): (&String, &String)| wanted == ANY || label == wanted;
        let longer = namespace.len() >= self.prefix.len().max(self.suffix.len());
        longer
            && namespace.iter().zip(&self.prefix).all(same)
            && namespace.iter().rev().zip(self.suffix.iter().rev()).all(same)
    }
}

//! An item that a directory brings, together with the directory's files that it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use deepagents::fs::VPath;
use deepagents::trust::{FoundItem, TrustItem, TrustKind};

use crate::small_file;

/// Maximum size in bytes of a file that is run, as the whole file is hashed.
const MAX_HASHED_BYTES: u64 = 64 << 20;
/// Maximum size in bytes of a file that is shown.
const MAX_SHOWN_BYTES: usize = 64 << 10;

/// The identity of an item, and what it asks for.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) kind: TrustKind,
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) asks_for: Vec<String>,
}

impl Whole {
    /// Adds its text and the files that it runs; the hash covers all of them. A missing file counts as empty.
    pub(crate) fn with(self, text: Vec<u8>, files: &BTreeSet<VPath>, root: &Path) -> FoundItem {
        let Self { kind, name, source, mut asks_for } = self;
        let item = |name: &str, content: &[u8]| TrustItem::new(kind, name, &source, content);
        let mut hashes = BTreeMap::from([(source.clone(), item(&name, &text))]);
        let mut shown = Vec::new();
        for path in files {
            let (content, is_read) = match small_file::bytes(&root.join(path.relative()), MAX_HASHED_BYTES) {
                Ok(content) => (content.unwrap_or_default(), true),
                Err(error) => {
                    asks_for.push(format!("the file {path}, which is not checked for changes: {error}"));
                    (error.to_string().into_bytes(), false)
                }
            };
            hashes.insert(path.as_str().to_owned(), item(path.as_str(), &content));
            if is_read && content.len() <= MAX_SHOWN_BYTES {
                shown.push((path.clone(), content));
            }
        }
        let whole = if hashes.len() == 1 {
            item(&name, &text)
        } else {
            let all = hashes.iter().map(|(path, item)| (path.as_str(), item.sha256.as_str()));
            TrustItem::from_files(kind, &name, &source, all)
        };
        let said = VPath::parse(&source).ok().map(|path| (path, text));
        let found = FoundItem::new(whole, asks_for);
        said.into_iter().chain(shown).fold(found, |found, (path, content)| found.file(path, content))
    }
}

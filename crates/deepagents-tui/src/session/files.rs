//! Finds files below the root for completion.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ignore::WalkBuilder;
use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};

use super::Session;
use crate::app::event::Event;

/// How long a file list is used before the directory is walked again.
const LIST_TTL: Duration = Duration::from_secs(5);
/// Maximum number of files in the list.
const MAX_FILES: usize = 200_000;
/// Maximum number of completions.
const MAX_COMPLETIONS: usize = 50;

/// The files below a root, as of the last walk.
pub(super) struct FileIndex {
    root: PathBuf,
    list: Mutex<Option<(Instant, Arc<Vec<String>>)>>,
    /// The number and text of the newest query; older ones are not answered.
    newest: Mutex<(u64, String)>,
    /// Whether a task is walking the directory.
    is_walking: AtomicBool,
}

impl FileIndex {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, list: Mutex::default(), newest: Mutex::default(), is_walking: AtomicBool::new(false) }
    }

    fn newest(&self) -> MutexGuard<'_, (u64, String)> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file list and whether it is stale.
    fn known(&self) -> Option<(Arc<Vec<String>>, bool)> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.as_ref().map(|(at, files)| (files.clone(), at.elapsed() >= LIST_TTL))
    }

    /// Walks the directory. Returns `None` if another task is doing so.
    fn walk_directory(&self) -> Option<Arc<Vec<String>>> {
        if self.is_walking.swap(true, Ordering::AcqRel) {
            return None;
        }
        let mut files = self.walk(self.root.ancestors().any(|directory| directory.join(".git").exists()));
        if files.is_empty() {
            // The root itself may be ignored by git.
            files = self.walk(false);
        }
        let files = Arc::new(files);
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), files.clone()));
        self.is_walking.store(false, Ordering::Release);
        Some(files)
    }

    /// Lists the files. In a repository, ignore files above the root apply too; elsewhere they do not.
    fn walk(&self, in_repository: bool) -> Vec<String> {
        let mut files = Vec::new();
        let walk = WalkBuilder::new(&self.root)
            .hidden(false)
            .parents(in_repository)
            .require_git(in_repository)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        for entry in walk.flatten().skip(1) {
            let Some(path) = entry.path().strip_prefix(&self.root).ok().and_then(|path| path.to_str()) else {
                continue;
            };
            // A message cannot contain a name with control characters.
            if path.chars().any(char::is_control) {
                continue;
            }
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            files.push(if is_directory { format!("{path}/") } else { path.to_owned() });
            if files.len() >= MAX_FILES {
                break;
            }
        }
        files
    }

    fn find(files: &[String], query: &str) -> Vec<String> {
        if query.is_empty() {
            return files.iter().take(MAX_COMPLETIONS).cloned().collect();
        }
        let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
        let pattern = Pattern::new(query, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy);
        let mut found = pattern.match_list(files.iter().map(String::as_str), &mut matcher);
        // Of equally good matches, the shorter one comes first.
        found.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.len().cmp(&b.len())).then_with(|| a.cmp(b)));
        found.into_iter().take(MAX_COMPLETIONS).map(|(file, _)| file.to_owned()).collect()
    }
}

impl Session {
    /// Answers from the file list. If that is stale, walks the directory and answers again if the result differs.
    pub(super) fn find_files(&self, query: String) {
        let (files, events) = (self.files.clone(), self.events.clone());
        let number = {
            let mut newest = self.files.newest();
            *newest = (newest.0 + 1, query.clone());
            newest.0
        };
        tokio::task::spawn_blocking(move || {
            if files.newest().0 != number {
                return;
            }
            let mut told = None;
            if let Some((known, is_old)) = files.known() {
                let found = FileIndex::find(&known, &query);
                let _ = events.send(Event::Files { query, found: found.clone() });
                if !is_old {
                    return;
                }
                told = Some(found);
            }
            let Some(list) = files.walk_directory() else { return };
            // Something else may have been typed meanwhile.
            let (newest, query) = files.newest().clone();
            let found = FileIndex::find(&list, &query);
            if newest != number || told.as_ref() != Some(&found) {
                let _ = events.send(Event::Files { query, found });
            }
        });
    }
}

//! Files below the root, for completion.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ignore::WalkBuilder;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};

use super::Session;
use crate::app::event::Event;

/// How long a list of files is used before the directory is looked at again.
const FRESH: Duration = Duration::from_secs(5);
/// Files of a directory that are known at most.
const FILES: usize = 200_000;
/// Files that are offered.
const OFFERED: usize = 50;

/// The files below a root, as they were when it was looked at last.
pub(super) struct FileIndex {
    root: PathBuf,
    list: Mutex<Option<(Instant, Arc<Vec<String>>)>>,
    /// Only the newest query is answered.
    newest: Mutex<u64>,
}

impl FileIndex {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, list: Mutex::default(), newest: Mutex::default() }
    }

    /// The files, read from the directory where what is known is too old.
    fn list(&self) -> Arc<Vec<String>> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        match &*list {
            Some((at, files)) if at.elapsed() < FRESH => files.clone(),
            _ => {
                let files = Arc::new(self.walk());
                *list = Some((Instant::now(), files.clone()));
                files
            }
        }
    }

    fn walk(&self) -> Vec<String> {
        let mut files = Vec::new();
        let walk = WalkBuilder::new(&self.root)
            .hidden(false)
            .parents(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        for entry in walk.flatten().skip(1) {
            let Some(path) = entry.path().strip_prefix(&self.root).ok().and_then(|path| path.to_str()) else {
                continue;
            };
            // A name that holds control characters cannot be written in a message.
            if path.chars().any(char::is_control) {
                continue;
            }
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            files.push(if is_directory { format!("{path}/") } else { path.to_owned() });
            if files.len() >= FILES {
                break;
            }
        }
        files
    }

    fn find(&self, query: &str) -> Vec<String> {
        let files = self.list();
        if query.is_empty() {
            return files.iter().take(OFFERED).cloned().collect();
        }
        let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
        let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
        let mut found = pattern.match_list(files.iter().map(String::as_str), &mut matcher);
        // Of two that fit alike the shorter one is meant.
        found.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.len().cmp(&b.len())).then_with(|| a.cmp(b)));
        found.into_iter().take(OFFERED).map(|(file, _)| file.to_owned()).collect()
    }
}

impl Session {
    pub(super) fn find_files(&self, query: String) {
        let (files, events) = (self.files.clone(), self.events.clone());
        let number = {
            let mut newest = self.files.newest.lock().unwrap_or_else(PoisonError::into_inner);
            *newest += 1;
            *newest
        };
        tokio::task::spawn_blocking(move || {
            let is_newest = || *files.newest.lock().unwrap_or_else(PoisonError::into_inner) == number;
            if !is_newest() {
                return;
            }
            let found = files.find(&query);
            let _ = events.send(Event::Files { query, found });
        });
    }
}

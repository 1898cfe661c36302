//! The file names of a scope, for a search.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use deepagents_core::state::{State, Update};
use deepagents_core::store::{Item, KeyInfo};

use super::{StoreBackend, below, entry_of, path_of, read_of, stat_of};
use crate::{Backend, ByteRange, FileRead, FsError, FsFuture, Listing, Stat, VPath, WriteMode, Written};

/// Maximum number of bytes and of files read at a time.
const PAGE: (u64, usize) = (1 << 20, 256);

/// The file names of a scope, from a single query of the store. A search walks these instead of querying each
/// directory. Contents stay in the store until they are read.
pub(super) struct Names {
    store: StoreBackend,
    files: BTreeMap<VPath, KeyInfo>,
    /// Paths that will be read, in order.
    wanted: Vec<VPath>,
    /// Files read ahead.
    ahead: Mutex<HashMap<VPath, Result<FileRead, FsError>>>,
}

impl Names {
    /// Loads the name of the file at a path, or of those below it.
    pub(super) async fn at(store: &StoreBackend, path: &VPath) -> Result<Self, FsError> {
        let found = match store.info(path).await? {
            Some(info) => vec![info],
            None => store.keys(path, &below(path)).await?,
        };
        let named = found.into_iter().filter_map(|info| Some((path_of(&info.key)?, info)));
        let mut files: BTreeMap<VPath, KeyInfo> = named.collect();
        if files.is_empty() && !path.is_root() {
            return Err(store.absent(path).await?);
        }
        // If there are files at a path and below it, only the upper one counts.
        let hidden = |path: &&VPath| path.ancestors().any(|above| files.contains_key(&above));
        for path in files.keys().filter(hidden).cloned().collect::<Vec<_>>() {
            files.remove(&path);
        }
        Ok(Self { store: store.clone(), files, wanted: Vec::new(), ahead: Mutex::default() })
    }

    /// Sets the files to be read, in path order, so that they are read page by page.
    pub(super) fn reading(mut self, wanted: Vec<VPath>) -> Self {
        self.wanted = wanted;
        self
    }

    /// Returns a path and those to be read after it that fit into a page.
    fn page(&self, path: &VPath) -> Vec<VPath> {
        let Ok(at) = self.wanted.binary_search(path) else { return vec![path.clone()] };
        let mut bytes = 0;
        let fits = |path: &&VPath| {
            let room = bytes < PAGE.0;
            bytes += self.files.get(*path).map_or(0, |info| info.size);
            room
        };
        self.wanted.iter().skip(at).take(PAGE.1).take_while(fits).cloned().collect()
    }

    async fn whole(&self, path: &VPath) -> Result<FileRead, FsError> {
        let ahead = || self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = ahead().remove(path) {
            return read;
        }
        let page = self.page(path);
        let keys: Vec<&str> = page.iter().map(VPath::as_str).collect();
        let Ok(items) = self.store.store.get_many(&self.store.namespace, &keys).await else {
            // One unreadable value must not fail the others.
            return self.store.read(&State::default(), path, ByteRange::ALL).await;
        };
        let read = |item: Item| {
            let path = path_of(&item.key)?;
            let read = read_of(&path, item, ByteRange::ALL);
            Some((path, read))
        };
        let mut found: HashMap<VPath, Result<FileRead, FsError>> = items.into_iter().filter_map(read).collect();
        let read = found.remove(path).unwrap_or_else(|| Err(FsError::NotFound(path.clone())));
        *ahead() = found;
        read
    }
}

impl Backend for Names {
    fn stat<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        // A search calls this only for its own path, which exists.
        let stat = match self.files.get(path) {
            Some(info) => stat_of(info),
            None => Stat::directory(),
        };
        Box::pin(async { Ok(stat) })
    }

    fn read<'a>(&'a self, _: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        Box::pin(async move {
            let read = self.whole(path).await?;
            Ok(FileRead { bytes: range.slice(&read.bytes), ..read })
        })
    }

    fn list<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        use std::ops::Bound::{Included, Unbounded};
        let first_from = |from: &str| self.files.range::<str, _>((Included(from), Unbounded)).next();
        Box::pin(async move { Ok(Listing::jumping(path, first_from, entry_of)) })
    }

    fn write<'a>(&'a self, _: &'a State, path: &'a VPath, _: Bytes, _: WriteMode) -> FsFuture<'a, Written> {
        Box::pin(async move { Err(FsError::ReadOnly(path.clone())) })
    }

    fn delete<'a>(&'a self, _: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move { Err(FsError::ReadOnly(path.clone())) })
    }
}

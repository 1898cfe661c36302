//! Makes parts of the workspace read-only or hides them.
//!
//! A mount on a directory does not prevent its *parent* from being renamed and replaced. So every directory between the
//! root and a guarded path becomes a mount as well, since mount points cannot be renamed. Links cannot be mounted on,
//! so a link's target is guarded instead, if it is in the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::failure::{At, Failure};
use super::find::find;
use super::mounts::{bind, read_only_below};
use super::root_fs::TABLE;
use super::rules::Rules;
use crate::permissions::run_from;
use crate::sandbox::Part;
use crate::sandbox::protocol::{Guard, GuardedPath, InnerPlan, NetworkAccess};

const EMPTY_FILE: &str = "/run/hidden-file";
const EMPTY_DIRECTORY: &str = "/run/hidden-directory";
/// Length in bytes from which the system takes no path.
const MAX_PATH_BYTES: usize = 4096;
/// Maximum number of links followed for one path.
const MAX_LINKS: usize = 16;

/// Entries of `/proc` that reveal host details other than processes and that commands do not need: keys, memory,
/// timers.
const PROC: [&str; 17] = [
    "acpi",
    "bus",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "sched_debug",
    "scsi",
    "slabinfo",
    "timer_list",
    "vmallocinfo",
];

/// Guards everything that the plan names.
pub(super) fn all(plan: &InnerPlan) -> Result<Option<Part>, Failure> {
    let mut guards = Guards::default();
    let mut part = None;
    if let Some(root) = &plan.root {
        let rules = Rules::new(&plan.rules)?;
        let places = rules.places(root)?;
        for (path, guard) in &places {
            guards.add(root, path, *guard)?;
        }
        let count = |wanted| places.iter().filter(|(_, guard)| *guard == wanted).count();
        part = (!rules.is_empty()).then(|| {
            let (hidden, read_only) = (count(Guard::Hide), count(Guard::Protect));
            Part::on("rules about files", format!("by mounts: {hidden} hidden, {read_only} read-only"))
        });
        for GuardedPath { path, guard, any_case } in &plan.guarded {
            let alike = if *any_case { in_any_case(root, path) } else { vec![path.clone()] };
            for path in &alike {
                guards.add(root, path, *guard)?;
            }
        }
    }
    for root in plan.root.iter().chain(&plan.writable) {
        // With the host's network, its sockets are accessible as well.
        for (found, named) in find(root, &plan.named, plan.network != NetworkAccess::Host) {
            match named {
                Some(named) => {
                    for GuardedPath { path, guard, .. } in &named.parts {
                        guards.add(root, &found.join(path), *guard)?;
                    }
                    if named.name == ".git" {
                        for path in run_from(root, &found, &plan.user_git) {
                            guards.add(root, &path, Guard::Protect)?;
                        }
                    }
                }
                None => guards.add(root, &found, Guard::Hide)?,
            }
        }
    }
    for (at, source) in shown(plan) {
        for hidden in plan.hidden_host.iter().filter(|hidden| *hidden != source) {
            if let Ok(below) = hidden.strip_prefix(source) {
                guards.add(at, below, Guard::Hide)?;
            }
        }
    }
    for name in PROC {
        let path = Path::new("/proc").join(name);
        if let Ok(metadata) = path.symlink_metadata() {
            bind(&hidden(&metadata)?, &path)?;
            guards.closed.insert(path, true);
        }
    }
    read_only_below(&guards.closed, Path::new(TABLE))?;
    Ok(part)
}

/// Returns the visible parts of the host: path in the sandbox and resolved host path.
fn shown(plan: &InnerPlan) -> impl Iterator<Item = (&PathBuf, &PathBuf)> {
    let same = plan.read_only.iter().chain(&plan.writable).chain(&plan.root).map(|path| (path, path));
    let tools = plan.tools.iter().map(|(at, source)| (at, source));
    same.chain(tools).chain(plan.caches.iter().map(|cache| (&cache.at, &cache.from)))
}

#[derive(Default)]
struct Guards {
    /// Parent directories of guarded paths, which are mounts.
    pinned: BTreeSet<PathBuf>,
    /// Paths to make read-only (`true`), with everything mounted below, and paths inside them that stay writable.
    closed: BTreeMap<PathBuf, bool>,
}

impl Guards {
    fn add(&mut self, root: &Path, path: &Path, guard: Guard) -> Result<(), Failure> {
        if path.as_os_str().is_empty() {
            // The root is already a mount.
            self.closed.insert(root.to_owned(), guard != Guard::Free);
            return Ok(());
        }
        let Some((path, metadata)) = self.pin(root, path, guard)? else { return Ok(()) };
        if self.closed.get(&path).is_some_and(|closed| *closed) {
            return Ok(());
        }
        match guard {
            Guard::ProtectFile if metadata.is_dir() => return Ok(()),
            Guard::Protect | Guard::ProtectFile | Guard::ProtectMade | Guard::Free => bind(&path, &path)?,
            Guard::Hide => bind(&hidden(&metadata)?, &path)?,
        }
        self.closed.insert(path, guard != Guard::Free);
        Ok(())
    }

    /// Turns every parent directory of a path into a mount. `None` if the path does not exist or leads out of the
    /// workspace.
    fn pin(&mut self, root: &Path, relative: &Path, guard: Guard) -> Result<Option<(PathBuf, Metadata)>, Failure> {
        let step = "guard a path of the workspace";
        let mut relative = relative.to_owned();
        'links: for _ in 0..MAX_LINKS {
            let mut at = root.to_owned();
            let mut names = relative.components().filter(|part| matches!(part, Component::Normal(_))).peekable();
            while let Some(name) = names.next() {
                let last = names.peek().is_none();
                at.push(name);
                let metadata = match at.symlink_metadata() {
                    Ok(metadata) => metadata,
                    Err(error) if error.kind() == ErrorKind::NotFound && last && guard == Guard::ProtectMade => {
                        fs::create_dir(&at).on(step, at.display())?;
                        at.symlink_metadata().on(step, at.display())?
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                        return Ok(None);
                    }
                    // No file has a name that is too long.
                    Err(error)
                        if error.kind() == ErrorKind::InvalidFilename && at.as_os_str().len() < MAX_PATH_BYTES =>
                    {
                        return Ok(None);
                    }
                    // The path is too long to be named; guard the directory above, which can be named.
                    Err(error) if error.kind() == ErrorKind::InvalidFilename && guard != Guard::Free => {
                        at.pop();
                        let metadata = at.symlink_metadata().on(step, at.display())?;
                        return Ok(Some((at, metadata)));
                    }
                    Err(error) => return Err(error).on(step, at.display()),
                };
                if metadata.is_symlink() {
                    // Commands cannot write outside the workspace, so nothing there needs a guard.
                    let Ok(target) = at.canonicalize() else { return Ok(None) };
                    let Ok(target) = target.strip_prefix(root) else { return Ok(None) };
                    relative = target.join(names.collect::<PathBuf>());
                    continue 'links;
                }
                if last {
                    return Ok(Some((at, metadata)));
                }
                if metadata.is_dir() && self.pinned.insert(at.clone()) {
                    bind(&at, &at)?;
                }
            }
            return Ok(None);
        }
        Ok(None)
    }
}

/// Returns the existing paths that match when ASCII case is ignored, or the path itself if there are none.
fn in_any_case(root: &Path, path: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for name in path.components() {
        let name = name.as_os_str();
        let alike = |above: &PathBuf| {
            let entries = fs::read_dir(root.join(above)).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name()).filter(|other| other.eq_ignore_ascii_case(name));
            names.map(|name| above.join(name)).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(alike).collect();
    }
    if found.is_empty() { vec![path.to_owned()] } else { found }
}

/// Returns an unreadable file or directory to mount in its place.
fn hidden(metadata: &Metadata) -> Result<PathBuf, Failure> {
    let step = "hide a path";
    let path = PathBuf::from(if metadata.is_dir() { EMPTY_DIRECTORY } else { EMPTY_FILE });
    if !path.exists() {
        if metadata.is_dir() { fs::create_dir(&path) } else { File::create(&path).map(drop) }.at(step)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).at(step)?;
    }
    Ok(path)
}

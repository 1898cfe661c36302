//! The tool chains of the user who starts a program, as commands in a sandbox see them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::homes::Homes;
use super::launch::HOME;
use super::policy::SYSTEM;

/// Where programs are looked for if the user says nothing.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Directories below a home that hold programs and what these need, with the variable that may name another place and
/// that commands are told. Settings are not among them, as they may hold keys.
const PROGRAMS: [(&str, Option<&str>, &[&str]); 17] = [
    (".cargo", Some("CARGO_HOME"), &["bin"]),
    (".rustup", Some("RUSTUP_HOME"), &["."]),
    (".nvm", Some("NVM_DIR"), &["versions", "alias"]),
    (".volta", Some("VOLTA_HOME"), &["bin", "tools"]),
    (".local/share/fnm", Some("FNM_DIR"), &["."]),
    (".bun", Some("BUN_INSTALL"), &["bin"]),
    (".deno", Some("DENO_INSTALL"), &["bin"]),
    (".pyenv", Some("PYENV_ROOT"), &["bin", "libexec", "shims", "versions", "version", "completions"]),
    (".rbenv", Some("RBENV_ROOT"), &["bin", "libexec", "shims", "versions", "version"]),
    (".asdf", Some("ASDF_DATA_DIR"), &["bin", "lib", "shims", "installs", "plugins"]),
    (".sdkman", Some("SDKMAN_DIR"), &["candidates"]),
    ("go", Some("GOPATH"), &["bin"]),
    ("sdk", None, &["."]),
    (".local/share/uv", None, &["python", "tools"]),
    (".local/share/pipx", None, &["."]),
    (".local/share/mise", None, &["installs", "shims"]),
    (".local", None, &["bin", "lib"]),
];

/// Variables of the above that are not told: commands have a directory of their own in their place, for what is written.
const OWN: [&str; 2] = ["CARGO_HOME", "GOPATH"];

/// Directories below a home, or below what a variable names, that hold what was downloaded or built before.
const CACHES: [(&str, Option<&str>, &[&str]); 9] = [
    (".cargo", Some("CARGO_HOME"), &["registry", "git"]),
    ("go", Some("GOPATH"), &["pkg"]),
    (".cache/go-build", Some("GOCACHE"), &["."]),
    (".npm", None, &["_cacache"]),
    (".cache/yarn", None, &["."]),
    (".cache/pip", None, &["."]),
    (".cache/uv", Some("UV_CACHE_DIR"), &["."]),
    (".m2", None, &["repository"]),
    (".gradle", None, &["caches"]),
];

/// What belongs to programs in a `bin` and stands beside it.
const BESIDE: [&str; 6] = ["lib", "lib32", "lib64", "libexec", "share", "include"];

/// What else some programs need, by what is there: Go, Java, old Java, Maven, Conda.
const MORE_BESIDE: [(&str, &[&str]); 5] = [
    ("src/runtime", &["src", "pkg", "misc", "VERSION", "go.env"]),
    ("lib/modules", &["conf", "jmods", "release"]),
    ("jre/lib", &["jre"]),
    ("boot/plexus-classworlds.license", &["boot", "conf"]),
    ("conda-meta", &["conda-meta", "ssl"]),
];

/// A directory of the host that commands see in their own home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Where it is on the host.
    pub from: PathBuf,
    /// Where commands see it: a path below their home.
    pub at: PathBuf,
    /// What becomes of what they write there.
    pub access: CacheAccess,
}

/// What becomes of what commands write to a [`Cache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CacheAccess {
    /// It is their own and gone when the command ends: they write to a layer in memory, within
    /// [`Limits::scratch`](super::Limits::scratch). Where the kernel has no such layers for users (before 5.11), they
    /// begin with an empty directory.
    #[default]
    Copy,
    /// It stays, on the host: faster the next time, and a way for a command to leave something for programs that run
    /// outside of the sandbox.
    Shared,
}

/// What a user's tool chains need in a sandbox.
///
/// ```no_run
/// use deepagents_fs::sandbox::{SandboxPolicy, ToolChains};
/// use deepagents_fs::shell::{Confinement, LocalShell};
/// let tools = ToolChains::find(|name| std::env::var(name).ok());
/// let policy = SandboxPolicy { tools, ..SandboxPolicy::default() };
/// let shell = LocalShell::open(".", Confinement::Sandboxed(policy))?;
/// # Ok::<(), deepagents_fs::OpenError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChains {
    /// Directories and files of the host that are shown, read-only, at their own paths.
    pub shown: Vec<PathBuf>,
    /// Caches.
    pub caches: Vec<Cache>,
    /// Variables for commands, `PATH` among them.
    pub env: BTreeMap<String, String>,
    /// What is shown, and where that is, once and for all.
    pub(crate) resolved: Vec<(PathBuf, PathBuf)>,
}

impl ToolChains {
    /// Those of the system alone.
    pub fn none() -> Self {
        Self::default()
    }

    /// Finds them by the user's environment: the directories of `PATH`, and where `cargo`, `node`, `python`, `go` and
    /// others keep their programs and caches below `HOME` or where a variable of theirs says. Keys and settings, which lie
    /// beside them, are not shown: of what stands beside a directory of `PATH` only `lib`, `share` and the like are, and
    /// nothing in a home.
    pub fn find(env: impl Fn(&str) -> Option<String>) -> Self {
        let mut tools = Self::default();
        let home = env("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home.parent().is_some());
        let place = |relative: &str, variable: Option<&str>| {
            let named = variable.and_then(&env).map(PathBuf::from).filter(|path| path.is_absolute());
            named.or_else(|| Some(home.as_ref()?.join(relative)))
        };
        for (relative, variable, parts) in PROGRAMS {
            let Some(place) = place(relative, variable) else { continue };
            let there: Vec<PathBuf> =
                parts.iter().map(|part| joined(&place, part)).filter(|path| path.exists()).collect();
            if let (Some(name), Some(value), false) = (variable, place.to_str(), there.is_empty())
                && !OWN.contains(&name)
            {
                tools.env.insert(name.to_owned(), value.to_owned());
            }
            tools.shown.extend(there);
        }
        for (relative, variable, parts) in CACHES {
            let Some(place) = place(relative, variable) else { continue };
            for part in parts {
                let from = joined(&place, part);
                if from.is_dir() {
                    let at = joined(&Path::new(HOME).join(relative), part);
                    tools.caches.push(Cache { from, at, access: CacheAccess::default() });
                }
            }
        }
        let path = env("PATH").unwrap_or_default();
        let homes = Homes::of(home.as_deref());
        let mut kept: Vec<&str> = Vec::new();
        for directory in path.split(':').chain(PATH.split(':')) {
            if Path::new(directory).is_absolute() && Path::new(directory).is_dir() && !kept.contains(&directory) {
                kept.push(directory);
                tools.shown.extend(shown_for(Path::new(directory), &homes));
            }
        }
        tools.env.insert("PATH".to_owned(), kept.join(":"));
        tools.settle();
        tools
    }

    /// The same, whose caches stay on the host.
    #[must_use]
    pub fn shared_caches(mut self) -> Self {
        for cache in &mut self.caches {
            cache.access = CacheAccess::Shared;
        }
        self
    }

    /// Follows the links on the way to all of it. What leads through a place that commands can write to is left out: they
    /// could have it lead anywhere. What is there itself needs not be shown.
    /// Nor is shown what lies in a place that is hidden.
    pub(crate) fn resolve(&mut self, writable: &[&Path], hidden: &[PathBuf]) {
        let seen = |path: &PathBuf| !hidden.iter().any(|hidden| path.starts_with(hidden));
        let followed = |path: &Path| followed(path, writable).filter(seen);
        let resolved = self.shown.iter().filter_map(|at| Some((at.clone(), followed(at)?)));
        self.resolved = resolved.collect();
        self.caches.retain_mut(|cache| match followed(&cache.from) {
            Some(from) => {
                cache.from = from;
                true
            }
            None => false,
        });
    }

    /// Leaves out what is shown with something above it.
    fn settle(&mut self) {
        self.shown.sort();
        self.shown.dedup();
        let all = self.shown.clone();
        self.shown.retain(|path| !all.iter().any(|other| path != other && path.starts_with(other)));
    }
}

/// What is to be shown for a directory of programs: it, and what belongs to them beside it, such as `../lib`. What else
/// lies there is not: a `bin` may stand in a home, by whichever path that is named.
fn shown_for(directory: &Path, homes: &Homes) -> Vec<PathBuf> {
    let Ok(real) = directory.canonicalize() else { return Vec::new() };
    if SYSTEM.iter().any(|system| directory.starts_with(system)) || homes.lie_in(&real) {
        return Vec::new();
    }
    let mut shown = vec![directory.to_owned()];
    let Some(tree) = directory.parent().filter(|tree| directory.ends_with("bin") && tree.components().count() > 2)
    else {
        return shown;
    };
    let Ok(real_tree) = tree.canonicalize() else { return shown };
    let dotted = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let own = homes.hold(&real) || homes.hold(&real_tree);
    if own || homes.lie_in(&real_tree) || dotted(tree) || dotted(&real_tree) {
        return shown;
    }
    let more = MORE_BESIDE.iter().filter(|(mark, _)| tree.join(mark).exists()).flat_map(|(_, names)| *names);
    let beside = BESIDE.iter().chain(more).map(|name| tree.join(name));
    // One of them may be a link to somewhere else.
    let is_part = |path: &PathBuf| path.canonicalize().is_ok_and(|real| !homes.hold(&real) && !homes.lie_in(&real));
    shown.extend(beside.filter(is_part));
    shown
}

fn joined(place: &Path, part: &str) -> PathBuf {
    if part == "." { place.to_owned() } else { place.join(part) }
}

/// Where a path leads, unless the way goes through one of these places or nowhere.
fn followed(path: &Path, writable: &[&Path]) -> Option<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut todo = path.to_owned();
    'links: for _ in 0..MOST_LINKS {
        let mut at = PathBuf::from("/");
        let mut parts = todo.components();
        while let Some(part) = parts.next() {
            match part {
                Component::Normal(name) => at.push(name),
                Component::ParentDir => drop(at.pop()),
                _ => continue,
            }
            if writable.iter().any(|place| at.starts_with(place)) {
                return None;
            }
            if at.symlink_metadata().ok()?.is_symlink() {
                let target = at.read_link().ok()?;
                at.pop();
                todo = at.join(target).join(parts.as_path());
                continue 'links;
            }
        }
        return Some(at);
    }
    None
}

//! The user's toolchains, as commands in a sandbox see them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::homes::Homes;
use super::launch::HOME;
use super::policy::SYSTEM;

/// Default search path for programs.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Directories below a home that hold programs and their dependencies, with the variable that may override the location
/// and is passed to commands. Settings are excluded, as they may contain keys.
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

/// Variables of those above that are not passed on, because commands write to their own directory instead.
const NOT_PASSED_ON: [&str; 2] = ["CARGO_HOME", "GOPATH"];

/// Directories below a home, or below a variable's location, that hold downloads and build results.
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

/// Directories beside a `bin` that belong to its programs.
const BIN_SIBLINGS: [&str; 6] = ["lib", "lib32", "lib64", "libexec", "share", "include"];

/// Further directories that some programs need, by a file that identifies them: Go, Java, old Java, Maven, Conda.
const EXTRA_BIN_SIBLINGS: [(&str, &[&str]); 5] = [
    ("src/runtime", &["src", "pkg", "misc", "VERSION", "go.env"]),
    ("lib/modules", &["conf", "jmods", "release"]),
    ("jre/lib", &["jre"]),
    ("boot/plexus-classworlds.license", &["boot", "conf"]),
    ("conda-meta", &["conda-meta", "ssl"]),
];

/// A host directory that commands see in their home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Path on the host.
    pub from: PathBuf,
    /// Path at which commands see it, below their home.
    pub at: PathBuf,
    /// Effect of commands' writes.
    pub access: CacheAccess,
}

/// Effect of commands' writes to a [`Cache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CacheAccess {
    /// Writes are private and discarded when the command ends. They go to a layer in memory, within
    /// [`Limits::scratch`](super::Limits::scratch). If the kernel has no unprivileged overlay mounts (before 5.11),
    /// commands start with an empty directory.
    #[default]
    Copy,
    /// Writes persist on the host. This is faster the next time, but lets a command leave files for programs outside
    /// the sandbox.
    Shared,
}

/// What a user's toolchains need in a sandbox. By default, only the system's toolchains are available.
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
    /// Host files and directories visible read-only at their own paths.
    pub shown: Vec<PathBuf>,
    /// Cache directories.
    pub caches: Vec<Cache>,
    /// Environment variables for commands, including `PATH`.
    pub env: BTreeMap<String, String>,
    /// The visible paths and what they resolve to, fixed when the policy is settled.
    pub(crate) resolved: Vec<(PathBuf, PathBuf)>,
}

impl ToolChains {
    /// Finds toolchains from the user's environment: the directories of `PATH`, and the programs and caches of `cargo`,
    /// `node`, `python`, `go` and others, below `HOME` or where their own variables point. Keys and settings beside
    /// them are not visible: beside a directory of `PATH`, only `lib`, `share` and the like are, and not those in a
    /// home directory.
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
                && !NOT_PASSED_ON.contains(&name)
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
        tools.remove_nested();
        tools
    }

    /// Makes all caches shared, so that writes to them persist on the host.
    #[must_use]
    pub fn shared_caches(mut self) -> Self {
        for cache in &mut self.caches {
            cache.access = CacheAccess::Shared;
        }
        self
    }

    /// Resolves the links in all paths. Drops paths that lead through a place that commands can write to, since they
    /// could redirect them, or inside it, as it is visible anyway. Also drops paths inside a hidden place.
    pub(crate) fn resolve(&mut self, writable: &[PathBuf], hidden: &[PathBuf]) {
        let seen = |path: &PathBuf| !hidden.iter().any(|hidden| path.starts_with(hidden));
        let followed = |path: &Path| followed(path, writable).filter(seen);
        self.resolved = self.shown.iter().filter_map(|at| Some((at.clone(), followed(at)?))).collect();
        self.caches.retain_mut(|cache| followed(&cache.from).map(|from| cache.from = from).is_some());
    }

    /// Removes paths that are below another visible path.
    fn remove_nested(&mut self) {
        self.shown.sort();
        self.shown.dedup();
        let all = self.shown.clone();
        self.shown.retain(|path| !all.iter().any(|other| path != other && path.starts_with(other)));
    }
}

/// Returns what must be visible for a directory of programs: the directory and its companions such as `../lib`. Nothing
/// else beside it is, as the `bin` may be in a home directory, under any path.
fn shown_for(directory: &Path, homes: &Homes) -> Vec<PathBuf> {
    let Ok(real) = directory.canonicalize() else { return Vec::new() };
    if SYSTEM.iter().any(|system| directory.starts_with(system)) || homes.would_show_in(&real) {
        return Vec::new();
    }
    let mut shown = vec![directory.to_owned()];
    let Some(tree) = directory.parent().filter(|tree| directory.ends_with("bin") && tree.components().count() > 2)
    else {
        return shown;
    };
    let Ok(real_tree) = tree.canonicalize() else { return shown };
    let dotted = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let own = homes.contain(&real) || homes.contain(&real_tree);
    if own || homes.would_show_in(&real_tree) || dotted(tree) || dotted(&real_tree) {
        return shown;
    }
    let more = EXTRA_BIN_SIBLINGS.iter().filter(|(mark, _)| tree.join(mark).exists()).flat_map(|(_, names)| *names);
    let beside = BIN_SIBLINGS.iter().chain(more).map(|name| tree.join(name));
    // A companion may be a link to somewhere else.
    let is_part =
        |path: &PathBuf| path.canonicalize().is_ok_and(|real| !homes.contain(&real) && !homes.would_show_in(&real));
    shown.extend(beside.filter(is_part));
    shown
}

fn joined(place: &Path, part: &str) -> PathBuf {
    if part == "." { place.to_owned() } else { place.join(part) }
}

/// Resolves a path; `None` if it leads through one of the writable places or does not exist.
fn followed(path: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    const MAX_LINKS: usize = 40;
    let mut todo = path.to_owned();
    'links: for _ in 0..MAX_LINKS {
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

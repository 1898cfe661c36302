//! What the user's own settings make git run in any repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::setting::{Kind, Setting, settings};
use crate::permissions::programs::beginning;

/// Number of bytes read of a settings file.
const MAX_FILE_BYTES: u64 = 256 << 10;
/// Maximum number of files read.
const MAX_FILES: usize = 32;

/// The user's and the system's git settings that contain commands or their locations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct UserGit {
    pub(super) home: Option<PathBuf>,
    pub(super) settings: Vec<Setting>,
}

impl UserGit {
    /// Reads the settings.
    #[allow(clippy::disallowed_methods, reason = "git has settings where its environment, which is this one, says")]
    pub(crate) fn read() -> Self {
        let home = std::env::home_dir();
        let own = home.iter().flat_map(|home| [home.join(".gitconfig"), home.join(".config/git/config")]);
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // In addition to the usual ones: which of them git reads depends on who starts it.
        let moved = variable("XDG_CONFIG_HOME").map(|directory| directory.join("git/config"));
        let named = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].into_iter().filter_map(variable);
        let mut todo: Vec<PathBuf> = own.chain(["/etc/gitconfig".into()]).chain(moved).chain(named).collect();
        let (mut read, mut found) = (BTreeSet::new(), Vec::new());
        while let Some(file) = todo.pop().filter(|_| read.len() < MAX_FILES) {
            if !read.insert(file.clone()) {
                continue;
            }
            let text = beginning(&file, MAX_FILE_BYTES).unwrap_or_default();
            for mut setting in settings(&String::from_utf8_lossy(&text)) {
                if setting.kind == Kind::Include {
                    let included = expanded(&setting.value, home.as_deref(), file.parent().unwrap_or(Path::new("/")));
                    setting.value = included.to_string_lossy().into_owned();
                    todo.push(included);
                }
                found.push(setting);
            }
        }
        Self { home, settings: found }
    }
}

/// Resolves a path in settings; `~/` is the home directory.
pub(super) fn expanded(value: &str, home: Option<&Path>, directory: &Path) -> PathBuf {
    match (value.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => directory.join(value),
    }
}

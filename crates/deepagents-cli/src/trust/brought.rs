//! What a root brings, as far as it may be used.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::fs::{Backend, VPath};
use deepagents::trust::{FoundItem, Survey, TrustItem, TrustPlaces, TrustedFiles, survey};

use super::{Undecided, admit, remember};
use crate::args::AgentArgs;
use crate::model_choice::env;
use crate::sources::{AGENTS, MEMORY, OWN, SKILLS};
use crate::{config, file_commands, hooks, output};

/// The usable files that a root brings, as they were when the user agreed to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brought {
    /// The files.
    pub(crate) files: Arc<TrustedFiles>,
}

impl Brought {
    /// Finds what the root brings, as far as it is wanted, and obtains the user's consent.
    pub(crate) async fn find(args: &AgentArgs, files: &dyn Backend, undecided: Undecided) -> Result<Self> {
        let found = survey_root(args, files).await?;
        for problem in &found.problems {
            output::remark(problem);
        }
        let root = args.directory().to_owned();
        // Files in the user's own directory, which the root may contain, are not the root's.
        let theirs: Vec<FoundItem> = found.items.into_iter().filter(|found| !is_users_own(&root, found)).collect();
        // Asking blocks on the user, and the trust store is a file.
        let beside = if undecided == Undecided::Accept { other_items(&root, files).await? } else { Vec::new() };
        let admitted = tokio::task::spawn_blocking(move || {
            remember(&root, beside)?;
            admit(&root, theirs, undecided)
        });
        let admitted = admitted.await??;
        Ok(Self { files: Arc::new(admitted.iter().collect()) })
    }

    /// Whether a file may be used.
    pub(crate) fn has(&self, path: &VPath) -> bool {
        self.files.contains(path)
    }
}

/// Returns what the root brings besides the parts of an agent: agreeing to everything includes settings and commands.
async fn other_items(root: &Path, files: &dyn Backend) -> Result<Vec<TrustItem>> {
    let (commands, _) = file_commands::brought(files).await?;
    let all = commands.into_iter().chain(config::brought(files).await?);
    Ok(all.filter(|found| !is_users_own(root, found)).map(|found| found.item).collect())
}

/// Returns what the root brings, as far as it is wanted.
pub(crate) async fn survey_root(args: &AgentArgs, files: &dyn Backend) -> Result<Survey> {
    let at = |path: String| VPath::parse(&path).map_err(|error| anyhow!("{error}"));
    let mut places = TrustPlaces::default();
    if !args.no_memory {
        places.memory = vec![at(format!("/{MEMORY}"))?, at(format!("/{OWN}/{MEMORY}"))?];
    }
    if !args.no_agents {
        places.agents = vec![at(format!("/{OWN}/{AGENTS}"))?];
    }
    if !args.no_skills {
        places.skills = vec![at(format!("/{OWN}/{SKILLS}"))?];
    }
    let mut found = survey(files, &places).await;
    if !args.no_hooks {
        match hooks::brought(files, args.directory()).await {
            Ok(item) => found.items.extend(item),
            Err(problem) => found.problems.push(problem),
        }
    }
    Ok(found)
}

/// Whether an item lies in the user's own directory, because the root is the user's home.
pub(crate) fn is_users_own(root: &Path, found: &FoundItem) -> bool {
    let own = format!("/{OWN}/");
    let Some(home) = env("HOME") else { return false };
    let same = |a: &Path, b: &Path| a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b));
    found.item.source.starts_with(&own) && same(root, Path::new(&home))
}

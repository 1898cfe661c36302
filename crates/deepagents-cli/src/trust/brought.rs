//! What a root brings, as far as it may be used.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use deepagents::fs::{Backend, VPath};
use deepagents::trust::{FoundItem, Survey, TrustPlaces, TrustedFiles, survey};

use super::{Consents, Undecided, admit, remember};
use crate::args::AgentArgs;
use crate::context_files::{AGENTS, MEMORY, SKILLS};
use crate::own_files::{OWN, is_same, named_home};
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
        output::remarks(&found.problems);
        let root = args.directory().to_owned();
        // Files in the user's own directory, which the root may contain, are not the root's.
        let theirs: Vec<FoundItem> = found.items.into_iter().filter(|found| !is_users_own(&root, found)).collect();
        // Agreeing to everything includes settings and commands.
        let beside =
            if undecided == Undecided::Accept { settings_and_commands(files).await?.items } else { Vec::new() };
        // Asking blocks on the user, and the trust store is a file.
        let admitted = tokio::task::spawn_blocking(move || {
            remember(&root, beside.into_iter().filter(|found| !is_users_own(&root, found)))?;
            admit(&root, theirs, undecided)
        });
        let admitted = admitted.await??;
        Ok(Self { files: Arc::new(admitted.iter().collect()) })
    }

    /// Returns what the root brings as far as the user has agreed to it before, and the problems with the rest. Prints
    /// and asks nothing.
    pub(crate) async fn find_quietly(args: &AgentArgs, files: &dyn Backend) -> Result<(Self, Vec<String>)> {
        let Survey { items, problems } = survey_root(args, files).await?;
        let root = args.directory().to_owned();
        // The trust store is a file.
        let agreed = tokio::task::spawn_blocking(move || {
            let known = Consents::of_root(&root)?;
            let is_usable = |found: &FoundItem| !is_users_own(&root, found) && known.has(&found.item);
            Ok::<_, anyhow::Error>(items.into_iter().filter(is_usable).collect::<Vec<_>>())
        });
        let agreed = agreed.await??;
        Ok((Self { files: Arc::new(agreed.iter().collect()) }, problems))
    }

    /// Whether a file may be used.
    pub(crate) fn has(&self, path: &VPath) -> bool {
        self.files.contains(path)
    }
}

/// Returns what the root brings besides the parts of an agent.
async fn settings_and_commands(files: &dyn Backend) -> Result<Survey> {
    let (mut items, mut problems) = file_commands::brought(files).await?;
    match config::brought(files).await {
        Ok(found) => items.extend(found),
        Err(problem) => problems.push(problem.to_string()),
    }
    Ok(Survey { items, problems })
}

/// Returns everything that the root brings for an agent, as far as it is wanted, and for the program.
pub(crate) async fn survey_all(args: &AgentArgs, files: &dyn Backend) -> Result<Survey> {
    let mut found = survey_root(args, files).await?;
    let beside = settings_and_commands(files).await?;
    found.items.extend(beside.items);
    found.problems.extend(beside.problems);
    Ok(found)
}

/// Returns what the root brings for an agent, as far as it is wanted.
async fn survey_root(args: &AgentArgs, files: &dyn Backend) -> Result<Survey> {
    let at = |path: String| VPath::parse(&path);
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
    let is_home = || named_home().is_some_and(|home| is_same(root, &home));
    found.item.source.starts_with(&format!("/{OWN}/")) && is_home()
}

//! The paths that the tools may access, where they lead, and which need approval.

use std::sync::Arc;

use deepagents_core::interrupt::{ActionRequests, ActionReview, Decision, DecisionAuthor, DecisionKind};
use deepagents_core::tool::{ToolContext, ToolError};
use deepagents_fs::permissions::AccessMode;
use deepagents_fs::{Backend, FsError, VPath};

use super::{failed, failed_at};
use crate::middleware::filesystem::Filesystem;
use crate::workspace::{self, AtLink};

/// A path that a call is to change.
pub(super) struct Target {
    pub(super) path: VPath,
    /// Where the path leads.
    pub(super) place: VPath,
    /// Whether a person must approve the change.
    pub(super) asks: bool,
    /// The files, with the path pinned to that target, so that the changed file is the one that was checked.
    pub(super) backend: Arc<dyn Backend>,
}

impl Target {
    /// Asks for approval if the change needs it and the call is not already approved.
    pub(super) fn approved(&self, cx: &ToolContext) -> Result<(), ToolError> {
        Self::all_approved(std::slice::from_ref(self), cx)
    }

    /// Asks once for the approval of all changes that need it. What a rule or a mode has decided about the call is no
    /// approval: a person may have allowed all writes with another file in mind.
    pub(super) fn all_approved(targets: &[Self], cx: &ToolContext) -> Result<(), ToolError> {
        let asks: Vec<&Self> = targets.iter().filter(|target| target.asks).collect();
        let all = |name: fn(&Self) -> &VPath| {
            asks.iter().map(|target| name(target).quoted().to_string()).collect::<Vec<_>>().join(", ")
        };
        let path = all(|target| &target.path);
        let decided = cx.state().get::<ActionRequests>().and_then(|asked| asked.get(&cx.call_id().to_string()));
        if asks.is_empty() || decided.is_some_and(is_decided_by_person) {
            return Ok(());
        }
        if cx.thread().is_none() && cx.path().is_empty() && !cx.is_direct() {
            let why = "is changed only where a person agrees, and nobody can be asked in this run";
            return Err(ToolError::denied_by(format!("protected place: {path}"), format!("Error: {path} {why}")));
        }
        let place = all(|target| &target.place);
        let leads = if place == path { String::new() } else { format!(", which leads to {place},") };
        let (are, them) = if asks.len() > 1 { ("are", "them") } else { ("is", "it") };
        let text = format!("{path}{leads} {are} part of what steers the agent. May {} change {them}?", cx.tool_name());
        let rule = format!("protected place: {place}");
        match cx.interrupt_by(rule, text, [DecisionKind::Approve, DecisionKind::Reject])? {
            Decision::Approve => Ok(()),
            Decision::Reject { message: Some(message) } => Err(failed(format!("{path} may not be changed: {message}"))),
            _ => Err(failed(format!("{path} may not be changed: a person was asked and refused"))),
        }
    }
}

fn is_decided_by_person(review: &ActionReview) -> bool {
    review.decision.as_ref().is_some_and(|decided| matches!(decided.author, None | Some(DecisionAuthor::Person)))
}

impl Filesystem {
    /// Parses a path from the model and checks that the tools may access it and its target.
    pub(super) async fn reach(&self, path: &str, cx: &ToolContext) -> Result<VPath, ToolError> {
        let path = self.named(path)?;
        if !self.options.allowed_prefixes.is_empty() {
            let place = self.place(&path, AtLink::Follows, cx).await?;
            self.check_place(&path, place.as_ref().unwrap_or(&path))?;
        }
        Ok(path)
    }

    /// Resolves a path that a call is to change. Rejects the root and the harness's own directories.
    pub(super) async fn reach_to_change(
        &self,
        path: &str,
        at_link: AtLink,
        cx: &ToolContext,
    ) -> Result<Target, ToolError> {
        let path = self.named(path)?;
        if path.is_root() {
            return Err(failed(
                "the path names the root of the workspace; give that of a file below it, such as /notes.md",
            ));
        }
        let led = self.place(&path, at_link, cx).await?;
        let place = led.clone().unwrap_or_else(|| path.clone());
        self.check_place(&path, &place)?;
        for kept in self.workspace.artifacts().directories() {
            if [&path, &place].iter().any(|path| path.starts_with(&kept) || kept.starts_with(path)) {
                return Err(failed(format!("{} holds what is kept for you and cannot be changed", path.quoted())));
            }
        }
        let backend = self.workspace.backend_for(cx);
        let mut asks = false;
        for path in [&path, &place] {
            asks |= backend.change_access(path).await == AccessMode::Ask;
        }
        let led = led.and_then(|place| backend.pinned(&path, &place));
        Ok(Target { path, place, asks, backend: led.unwrap_or(backend) })
    }

    /// Returns the directory to search. Defaults to the only allowed directory, if there is just one.
    pub(super) async fn reach_to_search(&self, path: Option<&str>, cx: &ToolContext) -> Result<VPath, ToolError> {
        match (path, &self.options.allowed_prefixes[..]) {
            (None, [only]) => self.reach(only.as_str(), cx).await,
            (path, _) => self.reach(path.unwrap_or("/"), cx).await,
        }
    }

    fn named(&self, path: &str) -> Result<VPath, ToolError> {
        let path = VPath::parse(path).map_err(failed)?;
        if self.within(&path) {
            return Ok(path);
        }
        let allowed: Vec<&str> = self.options.allowed_prefixes.iter().map(VPath::as_str).collect();
        Err(failed(format!("{} is out of reach; give a path below {}", path.quoted(), allowed.join(" or "))))
    }

    fn within(&self, path: &VPath) -> bool {
        let allowed = &self.options.allowed_prefixes;
        allowed.is_empty() || allowed.iter().any(|prefix| path.starts_with(prefix))
    }

    fn check_place(&self, path: &VPath, place: &VPath) -> Result<(), ToolError> {
        if self.within(place) { Ok(()) } else { Err(failed(format!("{} leads out of reach", path.quoted()))) }
    }

    /// Returns where a path leads, or `None` if rules do not allow resolving it.
    async fn place(&self, path: &VPath, at_link: AtLink, cx: &ToolContext) -> Result<Option<VPath>, ToolError> {
        let backend = self.workspace.backend_for(cx);
        match workspace::resolve(&*backend, cx.state(), path, at_link).await {
            // Rules that deny reading may allow writing; they check that themselves.
            Err(FsError::Denied { .. }) if self.options.allowed_prefixes.is_empty() => Ok(None),
            result => result.map(Some).map_err(failed_at(path)),
        }
    }
}

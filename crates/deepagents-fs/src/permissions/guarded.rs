//! A backend with permission rules.

use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{State, Update};
use futures_core::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{AccessMode, Decision, Operation, Permissions};
use crate::forward::forward;
use crate::lines::{LineRange, LineWindow};
use crate::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery, Scope};
use crate::shell::{Command, CommandOutput, Shell, ShellError};
use crate::{
    Backend, ByteRange, DeniedReason, FileRead, FsError, FsFuture, Kind, Listing, Stat, VPath, WriteMode, Written,
};

/// Handling of operations that require a person's approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnAsk {
    /// Allow them: the caller has already asked, based on [`Permissions::decide`] and [`Permissions::decide_tree`].
    Allow,
    /// Refuse them: there is nobody to ask.
    Refuse,
}

impl OnAsk {
    fn refuses(self, mode: AccessMode) -> bool {
        mode == AccessMode::Deny || (mode == AccessMode::Ask && self == Self::Refuse)
    }
}

/// How often a call is checked again because a path resolves elsewhere than when it was checked.
const MAX_CHECKS: usize = 64;

/// Kind of access to a path.
#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
    /// Looks into a directory.
    Tree,
    Delete,
}

/// Enforces permission rules on a backend, for everything that uses it: tools, memory, skills, stored results.
///
/// If a path leads through symbolic links, the rules must allow both the path as written and its target; the same goes
/// for a tree that is listed, searched or deleted. If only the target requires a person's approval, the call is
/// refused. Denied files are left out of listings and searches and do not count towards their limits. A directory can
/// be deleted only if nothing below it may be denied.
///
/// A call acts on the path that was checked: if a directory is replaced by a link in between, the call is checked
/// again. Two hard links to one file are two paths; rules cannot tell that they are the same. Rules are case-sensitive,
/// even where the disk is not.
///
/// Editing a file requires permission to write it, not to read it. A search for lines in the whole workspace covers all
/// readable files, even if the root itself may not be listed.
///
/// Commands are subject to the rules about commands. They are also subject to the rules about files if the inner
/// backend's shell [can enforce them](Shell::under), as a sandbox does. If it cannot, and a rule concerns files that
/// [commands can reach](Backend::shell_visible), there is no shell; to provide one regardless, wrap this backend in
/// `WithShell`.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::state::State;
/// use deepagents_fs::permissions::{OnAsk, PermissionedBackend, AccessMode, Permissions, Rule};
/// use deepagents_fs::{Backend, ByteRange, FsError, LocalBackend, VPath};
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let dir = tempfile::tempdir()?;
/// # runtime.block_on(async {
/// let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/secrets/**"])])?;
/// let files = PermissionedBackend::new(Arc::new(LocalBackend::open(dir.path())?), rules, OnAsk::Refuse);
/// let denied = files.read(&State::default(), &VPath::parse("/secrets/.env")?, ByteRange::ALL).await;
/// assert!(matches!(denied, Err(FsError::Denied { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PermissionedBackend {
    inner: Arc<dyn Backend>,
    rules: Arc<Permissions>,
    on_ask: OnAsk,
    /// Whether commands may reach files that the rules concern.
    evaded: bool,
    /// The shell that enforces the rules in that case.
    bound: Option<Arc<dyn Shell>>,
    /// A path, and the place the caller checked it to resolve to.
    leads: Option<(VPath, VPath)>,
}

impl PermissionedBackend {
    /// Wraps a backend with rules.
    pub fn new(inner: impl Backend, rules: Permissions, on_ask: OnAsk) -> Self {
        let inner: Arc<dyn Backend> = Arc::new(inner);
        let evaded = rules.anchors().any(|anchor| inner.shell_visible(&anchor));
        let bound = if evaded { inner.shell().and_then(|shell| shell.under(&rules)) } else { None };
        Self { inner, rules: Arc::new(rules), on_ask, evaded, bound, leads: None }
    }

    /// Returns the shell that may run commands.
    fn bound_shell(&self) -> Option<&dyn Shell> {
        if self.evaded { self.bound.as_deref() } else { self.inner.shell() }
    }

    /// Returns the rules.
    pub fn permissions(&self) -> &Permissions {
        &self.rules
    }

    fn decide(&self, operation: Operation, given: &VPath, path: &VPath) -> Result<(), FsError> {
        let decision = self.rules.decide(operation, path);
        let reason = if given == path { DeniedReason::Path } else { DeniedReason::Target };
        if self.on_ask.refuses(decision.mode) {
            Err(denied(operation, given, decision.pattern, reason))
        } else {
            Ok(())
        }
    }

    /// Checks a path as written and its target; returns the target.
    async fn check(&self, state: &State, operation: Operation, path: &VPath) -> Result<VPath, FsError> {
        self.decide(operation, path, path)?;
        if self.rules.is_empty() {
            return Ok(path.clone());
        }
        let real = self.inner.resolve(state, path).await?;
        if real != *path {
            self.decide(operation, path, &real)?;
            self.was_asked(operation, path, &real, Permissions::decide)?;
        }
        Ok(real)
    }

    /// Refuses a call if its target requires approval but the path as written does not, since the person was asked
    /// about the latter. With [`Permissions::decide_tree`], the same goes for a whole tree: a link to a directory leads
    /// to a tree that the path as written does not reveal.
    fn was_asked(
        &self,
        operation: Operation,
        path: &VPath,
        real: &VPath,
        decide: for<'r> fn(&'r Permissions, Operation, &VPath) -> Decision<'r>,
    ) -> Result<(), FsError> {
        let decision = decide(&self.rules, operation, real);
        let hidden = decision.mode == AccessMode::Ask && decide(&self.rules, operation, path).mode != AccessMode::Ask;
        if hidden { Err(denied(operation, path, decision.pattern, DeniedReason::Target)) } else { Ok(()) }
    }

    /// Checks a directory to be listed or searched, as written and its target; returns the target.
    async fn check_tree(&self, state: &State, path: &VPath) -> Result<VPath, FsError> {
        let real = self.check(state, Operation::Read, path).await?;
        self.was_asked(Operation::Read, path, &real, Permissions::decide_tree)?;
        Ok(real)
    }

    /// Returns a scope whose path resolves to `real`, with unreadable files filtered out.
    fn seen_from(&self, scope: &Scope, real: VPath) -> Scope {
        let (rules, on_ask, before) = (self.rules.clone(), self.on_ask, scope.clone());
        let visible = move |path: &VPath| {
            let allowed = |path: &VPath| !on_ask.refuses(rules.decide(Operation::Read, path).mode);
            // Links below the scope are not followed, so only the scope's own path can resolve elsewhere.
            let below = || path.strip_prefix(&before.path).map(|below| below.under(&real));
            let leads = if real == before.path { None } else { below() };
            before.sees(path) && allowed(path) && leads.as_ref().is_none_or(allowed)
        };
        Scope { visible: Some(Arc::new(visible)), ..scope.clone() }
    }

    /// Performs an access if the rules allow it. `call` receives the path that was checked, and a backend on which that
    /// path is pinned to the checked place if it can be.
    fn access<'a, T: Send + 'a>(
        &'a self,
        access: Access,
        state: &'a State,
        path: &'a VPath,
        call: impl for<'b> Fn(&'b dyn Backend, &'b State, &'b VPath, &VPath) -> FsFuture<'b, T> + Send + Sync + 'a,
    ) -> FsFuture<'a, T> {
        Box::pin(async move {
            for _ in 0..MAX_CHECKS {
                let real = match access {
                    Access::Read => self.check(state, Operation::Read, path).await?,
                    Access::Write => self.check(state, Operation::Write, path).await?,
                    Access::Tree => self.check_tree(state, path).await?,
                    Access::Delete => self.check_delete(state, path).await?,
                };
                let is_elsewhere = |(of, place): &(VPath, VPath)| of == path && *place != real;
                // Without rules, a path is not resolved.
                if !self.rules.is_empty() && self.leads.as_ref().is_some_and(is_elsewhere) {
                    break;
                }
                let pinned = if self.rules.is_empty() { None } else { self.inner.pinned(path, &real) };
                match call(pinned.as_deref().unwrap_or(&*self.inner), state, path, &real).await {
                    Err(FsError::LeadsElsewhere(_)) if pinned.is_some() => {}
                    result => return result,
                }
            }
            Err(FsError::LeadsElsewhere(path.clone()))
        })
    }

    async fn check_delete(&self, state: &State, path: &VPath) -> Result<VPath, FsError> {
        self.decide(Operation::Write, path, path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Ok(path.clone()) };
        if self.rules.is_empty() {
            return Ok(path.clone());
        }
        // Deleting affects the last component itself, so a link there is not followed.
        let place = self.inner.resolve(state, &parent).await?.child(name);
        self.decide(Operation::Write, path, &place)?;
        self.was_asked(Operation::Write, path, &place, Permissions::decide)?;
        let link = self.inner.resolve(state, path).await.map_or(true, |real| real != place);
        if link || self.inner.stat(state, path).await?.kind != Kind::Directory {
            return Ok(place);
        }
        self.was_asked(Operation::Write, path, &place, Permissions::decide_tree)?;
        for tree in [path, &place] {
            let decision = self.rules.decide_tree(Operation::Write, tree);
            if self.on_ask.refuses(decision.mode) {
                return Err(denied(Operation::Write, path, decision.pattern, DeniedReason::Contents));
            }
        }
        Ok(place)
    }
}

fn denied(operation: Operation, path: &VPath, rule: Option<&str>, reason: DeniedReason) -> FsError {
    let rule = rule.unwrap_or_default().to_owned();
    FsError::Denied { path: path.clone(), operation: operation.name(), rule, reason }
}

impl Backend for PermissionedBackend {
    forward!([.inner]; lock, capabilities, change_access, shell_visible, shell_unreachable, channels);

    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        self.access(Access::Read, state, path, |inner, state, path, _| inner.stat(state, path))
    }

    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        self.access(Access::Read, state, path, move |inner, state, path, _| inner.read(state, path, range))
    }

    fn read_to_change<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, FileRead> {
        self.access(Access::Write, state, path, |inner, state, path, _| inner.read_to_change(state, path))
    }

    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        self.access(Access::Read, state, path, move |inner, state, path, _| inner.read_lines(state, path, range))
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(async move {
            let listed = self.access(Access::Tree, state, path, |inner, state, path, real| {
                let real = real.clone();
                Box::pin(async move { inner.list(state, path).await.map(|listing| (real, listing)) })
            });
            let (real, mut listing) = listed.await?;
            let mut seen = Vec::with_capacity(listing.entries.len());
            for entry in listing.entries {
                let Some(name) = entry.path.name() else { continue };
                let mut allowed = self.decide(Operation::Read, path, &entry.path).is_ok()
                    && (real == *path || self.decide(Operation::Read, path, &real.child(name)).is_ok());
                if allowed && entry.link {
                    // For a dangling link, or one that leads outside, only the name is shown.
                    let leads = self.inner.resolve(state, &entry.path).await;
                    allowed = leads.map_or(true, |leads| self.decide(Operation::Read, path, &leads).is_ok());
                }
                if allowed {
                    seen.push(entry);
                }
            }
            listing.entries = seen;
            Ok(listing)
        })
    }

    fn write<'a>(&'a self, state: &'a State, path: &'a VPath, data: Bytes, mode: WriteMode) -> FsFuture<'a, Written> {
        self.access(Access::Write, state, path, move |inner, state, path, _| {
            inner.write(state, path, data.clone(), mode.clone())
        })
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        self.access(Access::Delete, state, path, |inner, state, path, _| inner.delete(state, path))
    }

    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        self.access(Access::Tree, state, &query.scope.path, move |inner, state, _, real| {
            let query = GlobQuery { scope: self.seen_from(&query.scope, real.clone()), ..query.clone() };
            Box::pin(async move { inner.glob(state, &query).await })
        })
    }

    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        if query.scope.path.is_root() {
            let query = GrepQuery { scope: self.seen_from(&query.scope, VPath::root()), ..query.clone() };
            return Box::pin(async move { self.inner.grep(state, &query).await });
        }
        self.access(Access::Tree, state, &query.scope.path, move |inner, state, _, real| {
            let query = GrepQuery { scope: self.seen_from(&query.scope, real.clone()), ..query.clone() };
            Box::pin(async move { inner.grep(state, &query).await })
        })
    }

    fn pinned(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        let leads = Some((path.clone(), place.clone()));
        Some(Arc::new(Self { inner: self.inner.pinned(path, place)?, leads, ..self.clone() }))
    }

    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        Box::pin(self.check(state, Operation::Read, path))
    }

    fn shell(&self) -> Option<&dyn Shell> {
        self.bound_shell().map(|inner| if self.rules.judges_commands() { self as &dyn Shell } else { inner })
    }
}

/// The inner backend's shell, restricted to commands that the rules allow.
impl Shell for PermissionedBackend {
    fn under(&self, rules: &Permissions) -> Option<Arc<dyn Shell>> {
        let bound = self.bound_shell()?.under(rules)?;
        Some(Arc::new(Self { evaded: true, bound: Some(bound), ..self.clone() }))
    }

    fn run(
        &self,
        command: Command,
        cancel: CancellationToken,
        progress: Option<mpsc::Sender<String>>,
    ) -> BoxFuture<'_, Result<CommandOutput, ShellError>> {
        Box::pin(async move {
            let decision = self.rules.decide_command(command.text());
            if self.on_ask.refuses(decision.mode) {
                let asks = decision.mode == AccessMode::Ask;
                return Err(ShellError::Denied { reason: decision.reason.to_string(), asks });
            }
            let none = || ShellError::start("this workspace runs no commands");
            self.bound_shell().ok_or_else(none)?.run(command, cancel, progress).await
        })
    }
}

//! A backend behind rules.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{State, Update};
use futures_core::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{AccessMode, Operation, Permissions};
use crate::forward::forward;
use crate::lines::{LineRange, LineWindow};
use crate::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery, Scope};
use crate::shell::{Command, CommandOutput, Shell, ShellError};
use crate::{Backend, ByteRange, FileRead, FsError, FsFuture, Kind, Listing, Stat, VPath, WriteMode, Written};

/// What happens to operations that rules want a person to be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnAsk {
    /// They are done: whoever calls has asked, with [`Permissions::decide`] and [`Permissions::decide_tree`].
    Allow,
    /// They are refused: there is nobody to ask.
    Refuse,
}

impl OnAsk {
    fn refuses(self, mode: AccessMode) -> bool {
        mode == AccessMode::Deny || (mode == AccessMode::Ask && self == Self::Refuse)
    }
}

/// Rules around a backend. Whatever goes through it is bound by them: tools, memory, skills, stored results.
///
/// A path that leads through symbolic links must be allowed both as written and where it leads, and so must a tree that
/// is listed, searched or deleted; what a person must be asked about and only the place says so is refused. Denied files are left
/// out of listings and searches and take nothing from their limits. Deleting a directory needs that nothing below may
/// be denied. Two hard links to one file are two paths: rules cannot see that they are the same. Rules tell upper from
/// lower case, also where the disk does not.
///
/// Editing a file needs leave to write it, not to read it. A search for lines in the whole workspace finds those in
/// files that may be read, also where the root itself may not be listed.
///
/// Commands are bound by the rules about commands, and by those about files where the shell of what is inside
/// [can see to that](Shell::under), as a sandbox does. Where it cannot, and one of the rules is about files that
/// [commands reach](Backend::shell_visible), there is no shell; give it one with `WithShell` where that is meant.
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
#[derive(Clone)]
pub struct PermissionedBackend {
    inner: Arc<dyn Backend>,
    rules: Arc<Permissions>,
    on_ask: OnAsk,
    /// Whether commands might reach what the rules are about.
    evaded: bool,
    /// The shell that binds them, where they might.
    bound: Option<Arc<dyn Shell>>,
}

impl fmt::Debug for PermissionedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermissionedBackend")
            .field("inner", &self.inner)
            .field("rules", &self.rules)
            .field("on_ask", &self.on_ask)
            .finish_non_exhaustive()
    }
}

impl PermissionedBackend {
    /// Puts rules around a backend.
    pub fn new(inner: Arc<dyn Backend>, rules: Permissions, on_ask: OnAsk) -> Self {
        let evaded = rules.anchors().any(|anchor| inner.shell_visible(&anchor));
        let bound = if evaded { inner.shell().and_then(|shell| shell.under(&rules)) } else { None };
        Self { inner, rules: Arc::new(rules), on_ask, evaded, bound }
    }

    /// The shell for commands that may be run.
    fn bound_shell(&self) -> Option<&dyn Shell> {
        if self.evaded { self.bound.as_deref() } else { self.inner.shell() }
    }

    /// The rules.
    pub fn permissions(&self) -> &Permissions {
        &self.rules
    }

    fn decide(&self, operation: Operation, given: &VPath, path: &VPath) -> Result<(), FsError> {
        let decision = self.rules.decide(operation, path);
        if self.on_ask.refuses(decision.mode) { Err(denied(operation, given, decision.pattern)) } else { Ok(()) }
    }

    /// Checks a path as written and where it leads; gives the latter.
    async fn check(&self, state: &State, operation: Operation, path: &VPath) -> Result<VPath, FsError> {
        self.decide(operation, path, path)?;
        if self.rules.is_empty() {
            return Ok(path.clone());
        }
        let real = self.inner.resolve(state, path).await?;
        if real != *path {
            self.decide(operation, path, &real)?;
            self.was_asked(operation, path, &real)?;
        }
        Ok(real)
    }

    /// Refuses what a person must be asked about where the path as written, which is what was asked with, hides that.
    fn was_asked(&self, operation: Operation, path: &VPath, real: &VPath) -> Result<(), FsError> {
        let decision = self.rules.decide(operation, real);
        let hidden = decision.mode == AccessMode::Ask && self.rules.decide(operation, path).mode != AccessMode::Ask;
        if hidden { Err(denied(operation, path, decision.pattern)) } else { Ok(()) }
    }

    /// The same for an operation on all below: a link to a directory above leads to a tree that the path as written
    /// says nothing of.
    fn tree_was_asked(&self, operation: Operation, path: &VPath, real: &VPath) -> Result<(), FsError> {
        let decision = self.rules.decide_tree(operation, real);
        let hidden =
            decision.mode == AccessMode::Ask && self.rules.decide_tree(operation, path).mode != AccessMode::Ask;
        if hidden { Err(denied(operation, path, decision.pattern)) } else { Ok(()) }
    }

    /// Checks a directory that is looked into as written and where it leads; gives the latter.
    async fn check_tree(&self, state: &State, path: &VPath) -> Result<VPath, FsError> {
        let real = self.check(state, Operation::Read, path).await?;
        self.tree_was_asked(Operation::Read, path, &real)?;
        Ok(real)
    }

    /// A scope in which what may not be read is not seen.
    async fn scope(&self, state: &State, scope: &Scope) -> Result<Scope, FsError> {
        let real = self.check_tree(state, &scope.path).await?;
        Ok(self.seen_from(scope, real))
    }

    /// A scope that leads to `real`, in which what may not be read is not seen.
    fn seen_from(&self, scope: &Scope, real: VPath) -> Scope {
        let mut out = scope.clone();
        let (rules, on_ask, before, base) =
            (self.rules.clone(), self.on_ask, scope.visible.clone(), scope.path.clone());
        out.visible = Some(Arc::new(move |path: &VPath| {
            let allowed = |path: &VPath| !on_ask.refuses(rules.decide(Operation::Read, path).mode);
            // Below the scope no link is followed, so only its own path can lead elsewhere.
            let leads = (real != base).then(|| path.strip_prefix(&base)).flatten().map(|below| below.under(&real));
            before.as_ref().is_none_or(|sees| sees(path)) && allowed(path) && leads.as_ref().is_none_or(allowed)
        }));
        out
    }

    /// Does what the rules allow at a path.
    fn allowed<'a, T: 'a>(
        &'a self,
        operation: Operation,
        state: &'a State,
        path: &'a VPath,
        call: impl FnOnce(&'a dyn Backend) -> FsFuture<'a, T> + Send + 'a,
    ) -> FsFuture<'a, T> {
        Box::pin(async move {
            self.check(state, operation, path).await?;
            call(&*self.inner).await
        })
    }

    async fn check_delete(&self, state: &State, path: &VPath) -> Result<(), FsError> {
        self.decide(Operation::Write, path, path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Ok(()) };
        if self.rules.is_empty() {
            return Ok(());
        }
        // The last component is deleted itself, so a link there is not followed.
        let place = self.inner.resolve(state, &parent).await?.child(name);
        self.decide(Operation::Write, path, &place)?;
        self.was_asked(Operation::Write, path, &place)?;
        let link = self.inner.resolve(state, path).await.map_or(true, |real| real != place);
        if link || self.inner.stat(state, path).await?.kind != Kind::Directory {
            return Ok(());
        }
        self.tree_was_asked(Operation::Write, path, &place)?;
        for tree in [path, &place] {
            let decision = self.rules.decide_tree(Operation::Write, tree);
            if self.on_ask.refuses(decision.mode) {
                return Err(denied(Operation::Write, path, decision.pattern));
            }
        }
        Ok(())
    }
}

fn denied(operation: Operation, path: &VPath, rule: Option<&str>) -> FsError {
    FsError::Denied { path: path.clone(), operation: operation.name(), rule: rule.unwrap_or_default().to_owned() }
}

impl Backend for PermissionedBackend {
    forward!([.inner]; lock, capabilities, change_access, shell_visible, channels);

    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        self.allowed(Operation::Read, state, path, move |inner| inner.stat(state, path))
    }

    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        self.allowed(Operation::Read, state, path, move |inner| inner.read(state, path, range))
    }

    fn read_to_change<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, FileRead> {
        self.allowed(Operation::Write, state, path, move |inner| inner.read_to_change(state, path))
    }

    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        self.allowed(Operation::Read, state, path, move |inner| inner.read_lines(state, path, range))
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(async move {
            let real = self.check_tree(state, path).await?;
            let mut listing = self.inner.list(state, path).await?;
            let mut seen = Vec::with_capacity(listing.entries.len());
            for entry in listing.entries {
                let Some(name) = entry.path.name() else { continue };
                let mut allowed = self.decide(Operation::Read, path, &entry.path).is_ok()
                    && (real == *path || self.decide(Operation::Read, path, &real.child(name)).is_ok());
                if allowed && entry.link {
                    // A link that leads nowhere or outside shows its name alone.
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
        self.allowed(Operation::Write, state, path, move |inner| inner.write(state, path, data, mode))
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        Box::pin(async move {
            self.check_delete(state, path).await?;
            self.inner.delete(state, path).await
        })
    }

    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        Box::pin(async move {
            let query = GlobQuery { scope: self.scope(state, &query.scope).await?, ..query.clone() };
            self.inner.glob(state, &query).await
        })
    }

    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        Box::pin(async move {
            let scope = match query.scope.path.is_root() {
                true => self.seen_from(&query.scope, VPath::root()),
                false => self.scope(state, &query.scope).await?,
            };
            let query = GrepQuery { scope, ..query.clone() };
            self.inner.grep(state, &query).await
        })
    }

    fn resolve<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, VPath> {
        Box::pin(self.check(state, Operation::Read, path))
    }

    fn shell(&self) -> Option<&dyn Shell> {
        self.bound_shell().map(|inner| if self.rules.judges_commands() { self as &dyn Shell } else { inner })
    }
}

/// The shell of what is inside, for commands that the rules allow.
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

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

/// How often a call is judged anew because a path leads elsewhere than it did when it was judged.
const TRIES: usize = 64;

/// What a call does at a path, for the rules.
#[derive(Clone, Copy)]
enum Act {
    One(Operation),
    /// It looks into a directory.
    Tree,
    Delete,
}

/// Rules around a backend. Whatever goes through it is bound by them: tools, memory, skills, stored results.
///
/// A path that leads through symbolic links must be allowed both as written and where it leads, and so must a tree that
/// is listed, searched or deleted; what a person must be asked about and only the place says so is refused. Denied files are left
/// out of listings and searches and take nothing from their limits. Deleting a directory needs that nothing below may
/// be denied. What is judged is what is done: where a directory is exchanged for a link in between, the call is judged anew.
/// Two hard links to one file are two paths: rules cannot see that they are the same. Rules tell upper from
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
    /// A path, and the place that whoever calls has judged it to lead to.
    leads: Option<(VPath, VPath)>,
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
        Self { inner, rules: Arc::new(rules), on_ask, evaded, bound, leads: None }
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

    /// What is inside, in which a path leads where it was judged to lead.
    fn led(&self, path: &VPath, real: &VPath) -> Option<Arc<dyn Backend>> {
        if self.rules.is_empty() { None } else { self.inner.leading(path, real) }
    }

    /// Judges what is done at a path; gives where that is.
    async fn judge(&self, state: &State, act: Act, path: &VPath) -> Result<VPath, FsError> {
        match act {
            Act::One(operation) => self.check(state, operation, path).await,
            Act::Tree => self.check_tree(state, path).await,
            Act::Delete => self.check_delete(state, path).await,
        }
    }

    /// Does what the rules allow at a path, with where it leads.
    fn done<'a, T: Send + 'a>(
        &'a self,
        act: Act,
        state: &'a State,
        path: &'a VPath,
        call: impl for<'b> Fn(&'b dyn Backend, &'b State, &'b VPath) -> FsFuture<'b, T> + Send + Sync + 'a,
    ) -> FsFuture<'a, (VPath, T)> {
        Box::pin(async move {
            for _ in 0..TRIES {
                let real = self.judge(state, act, path).await?;
                let is_elsewhere = |(of, place): &(VPath, VPath)| of == path && *place != real;
                // Without rules a path is judged as it is written.
                if !self.rules.is_empty() && self.leads.as_ref().is_some_and(is_elsewhere) {
                    break;
                }
                let led = self.led(path, &real);
                match call(led.as_deref().unwrap_or(&*self.inner), state, path).await {
                    Err(FsError::LeadsElsewhere(_)) if led.is_some() => {}
                    result => return Ok((real, result?)),
                }
            }
            Err(FsError::LeadsElsewhere(path.clone()))
        })
    }

    /// Does what the rules allow at a path.
    fn allowed<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        state: &'a State,
        path: &'a VPath,
        call: impl for<'b> Fn(&'b dyn Backend, &'b State, &'b VPath) -> FsFuture<'b, T> + Send + Sync + 'a,
    ) -> FsFuture<'a, T> {
        Box::pin(async move { Ok(self.done(Act::One(operation), state, path, call).await?.1) })
    }

    /// What is searched from a scope and what is seen there, where that may be looked into.
    async fn scoped(&self, state: &State, scope: &Scope) -> Result<(Option<Arc<dyn Backend>>, Scope), FsError> {
        let real = self.check_tree(state, &scope.path).await?;
        Ok((self.led(&scope.path, &real), self.seen_from(scope, real)))
    }

    async fn check_delete(&self, state: &State, path: &VPath) -> Result<VPath, FsError> {
        self.decide(Operation::Write, path, path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Ok(path.clone()) };
        if self.rules.is_empty() {
            return Ok(path.clone());
        }
        // The last component is deleted itself, so a link there is not followed.
        let place = self.inner.resolve(state, &parent).await?.child(name);
        self.decide(Operation::Write, path, &place)?;
        self.was_asked(Operation::Write, path, &place)?;
        let link = self.inner.resolve(state, path).await.map_or(true, |real| real != place);
        if link || self.inner.stat(state, path).await?.kind != Kind::Directory {
            return Ok(place);
        }
        self.tree_was_asked(Operation::Write, path, &place)?;
        for tree in [path, &place] {
            let decision = self.rules.decide_tree(Operation::Write, tree);
            if self.on_ask.refuses(decision.mode) {
                return Err(denied(Operation::Write, path, decision.pattern));
            }
        }
        Ok(place)
    }
}

fn denied(operation: Operation, path: &VPath, rule: Option<&str>) -> FsError {
    FsError::Denied { path: path.clone(), operation: operation.name(), rule: rule.unwrap_or_default().to_owned() }
}

impl Backend for PermissionedBackend {
    forward!([.inner]; lock, capabilities, change_access, shell_visible, channels);

    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Stat> {
        self.allowed(Operation::Read, state, path, |inner, state, path| inner.stat(state, path))
    }

    fn read<'a>(&'a self, state: &'a State, path: &'a VPath, range: ByteRange) -> FsFuture<'a, FileRead> {
        self.allowed(Operation::Read, state, path, move |inner, state, path| inner.read(state, path, range))
    }

    fn read_to_change<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, FileRead> {
        self.allowed(Operation::Write, state, path, |inner, state, path| inner.read_to_change(state, path))
    }

    fn read_lines<'a>(&'a self, state: &'a State, path: &'a VPath, range: LineRange) -> FsFuture<'a, LineWindow> {
        self.allowed(Operation::Read, state, path, move |inner, state, path| inner.read_lines(state, path, range))
    }

    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Listing> {
        Box::pin(async move {
            let listed = self.done(Act::Tree, state, path, |inner, state, path| inner.list(state, path));
            let (real, mut listing) = listed.await?;
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
        self.allowed(Operation::Write, state, path, move |inner, state, path| {
            inner.write(state, path, data.clone(), mode.clone())
        })
    }

    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> FsFuture<'a, Update> {
        let deleted = self.done(Act::Delete, state, path, |inner, state, path| inner.delete(state, path));
        Box::pin(async move { Ok(deleted.await?.1) })
    }

    fn glob<'a>(&'a self, state: &'a State, query: &'a GlobQuery) -> FsFuture<'a, GlobOutcome> {
        Box::pin(async move {
            for _ in 0..TRIES {
                let (led, scope) = self.scoped(state, &query.scope).await?;
                let query = GlobQuery { scope, ..query.clone() };
                match led.as_deref().unwrap_or(&*self.inner).glob(state, &query).await {
                    Err(FsError::LeadsElsewhere(_)) if led.is_some() => {}
                    result => return result,
                }
            }
            Err(FsError::LeadsElsewhere(query.scope.path.clone()))
        })
    }

    fn grep<'a>(&'a self, state: &'a State, query: &'a GrepQuery) -> FsFuture<'a, GrepOutcome> {
        Box::pin(async move {
            for _ in 0..TRIES {
                let (led, scope) = match query.scope.path.is_root() {
                    true => (None, self.seen_from(&query.scope, VPath::root())),
                    false => self.scoped(state, &query.scope).await?,
                };
                let query = GrepQuery { scope, ..query.clone() };
                match led.as_deref().unwrap_or(&*self.inner).grep(state, &query).await {
                    Err(FsError::LeadsElsewhere(_)) if led.is_some() => {}
                    result => return result,
                }
            }
            Err(FsError::LeadsElsewhere(query.scope.path.clone()))
        })
    }

    fn leading(&self, path: &VPath, place: &VPath) -> Option<Arc<dyn Backend>> {
        let leads = Some((path.clone(), place.clone()));
        Some(Arc::new(Self { inner: self.inner.leading(path, place)?, leads, ..self.clone() }))
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

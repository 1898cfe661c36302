//! Starts the helper and reads its messages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::disk_guard::Spare;
use super::hosts::{Host, HostPattern};
use super::policy::{Git, Network};
use super::protocol::{
    Guard, GuardedName, GuardedPath, Identity, InnerPlan, Message, NetworkAccess, OUTER, OuterPlan, framed,
};
use super::{Sandbox, SandboxPolicy, SandboxReport};
use crate::VPath;
use crate::permissions::{Permissions, UserGit, leads, repositories_above, run_from};
use crate::shell::supervise::{Helper, Job};
use crate::shell::{Exit, ShellError};

/// Home directory in a sandbox.
pub(crate) const HOME: &str = "/tmp/home";

/// A command to run.
pub(crate) struct Task<'a> {
    pub(crate) root: Option<&'a Path>,
    /// Identities of the root and the policy's writable directories.
    pub(crate) identities: &'a [Identity],
    pub(crate) cwd: &'a Path,
    pub(crate) program: &'a Path,
    pub(crate) text: &'a str,
    /// Whether the command has an input to read.
    pub(crate) takes_input: bool,
}

impl Sandbox {
    /// Creates the job of the helper for a command.
    pub(crate) fn job<'a>(
        &self,
        policy: &'a SandboxPolicy,
        task: &Task<'a>,
        env: BTreeMap<String, String>,
    ) -> Result<Job<'a>, ShellError> {
        let helper = self.program().map_err(ShellError::start)?;
        let (network, allowed) = match &policy.network {
            Network::None => (NetworkAccess::Own, None),
            Network::Host => (NetworkAccess::Host, None),
            Network::AllowList(hosts) => (NetworkAccess::Proxy { direct: direct(hosts) }, Some(hosts.clone())),
        };
        let user_git = task.root.map(|_| UserGit::read()).unwrap_or_default();
        let inner = InnerPlan {
            root: task.root.map(Path::to_owned),
            cwd: task.cwd.to_owned(),
            network: network.clone(),
            read_only: policy.read_only.clone(),
            tools: policy.tools.resolved.clone(),
            caches: policy.tools.caches.clone(),
            writable: policy.writable.clone(),
            identities: task.identities.to_vec(),
            guarded: guarded(policy, task.root, &user_git),
            hidden_host: policy.hidden_host.clone(),
            rules: policy.rules.iter().map(Permissions::file_rules).collect(),
            named: named(policy),
            user_git,
            limits: policy.limits,
            least: policy.least(),
            program: task.program.to_owned(),
            args: vec!["-c".to_owned(), task.text.to_owned()],
            env: env.into_iter().collect(),
            takes_input: task.takes_input,
        };
        let mut plan = framed(&OuterPlan { network }).map_err(ShellError::start)?;
        plan.extend(framed(&inner).map_err(ShellError::start)?);
        let mut command = std::process::Command::new(helper);
        command.arg(OUTER).env_clear().current_dir("/");
        let spare = Spare::new(policy.limits.spare, policy.writable.iter().map(PathBuf::as_path).chain(task.root));
        let helper = Some(Helper { plan, allowed });
        Ok(Job { command, is_gated: false, helper, spare: Some(spare), input: None })
    }
}

/// Returns the hosts for which commands bypass the proxy to reach what they started themselves: the sandbox's loopback
/// names, except those on the list, which mean the host's loopback.
fn direct(hosts: &[HostPattern]) -> Vec<String> {
    let listed = |own: &&str| Host::parse(own).is_ok_and(|own| hosts.iter().any(|pattern| pattern.names(&own)));
    ["localhost", "127.0.0.1", "::1"].iter().filter(|own| !listed(own)).map(|own| (*own).to_owned()).collect()
}

fn guarded(policy: &SandboxPolicy, root: Option<&Path>, user_git: &UserGit) -> Vec<GuardedPath> {
    let of =
        |guard, any_case| move |path: &VPath| GuardedPath { path: PathBuf::from(path.relative()), guard, any_case };
    // The helper cannot see repositories above the root; it looks for those below.
    let above = |root| repositories_above(root).flat_map(move |git| run_from(root, &git, user_git));
    let above = root.filter(|_| policy.guards_git()).into_iter().flat_map(above);
    let above = above.map(|path| GuardedPath { path, guard: Guard::Protect, any_case: false });
    let places = || policy.protected_places.paths();
    let led = root.into_iter().flat_map(|root| places().flat_map(move |place| leads(root, place)));
    let led: BTreeSet<VPath> = led.collect();
    // Hidden paths come first, so that one that is also protected stays hidden.
    let hidden = policy.hidden.iter().map(of(Guard::Hide, false));
    let protected = policy.protected.iter().map(of(Guard::Protect, false));
    let places = places().map(of(Guard::Protect, true));
    hidden.chain(places).chain(protected).chain(led.iter().map(of(Guard::Protect, false))).chain(above).collect()
}

fn named(policy: &SandboxPolicy) -> Vec<GuardedName> {
    let whole: &[(&str, Guard)] = &[("", Guard::Protect)];
    let without_programs: &[(&str, Guard)] = &[
        ("", Guard::ProtectFile),
        ("hooks", Guard::ProtectMade),
        ("config", Guard::Protect),
        ("config.worktree", Guard::Protect),
        ("modules", Guard::Protect),
    ];
    let parts = |name: &str| match policy.git {
        Git::Commits if name == ".git" => without_programs,
        Git::Writable if name == ".git" => &[],
        _ => whole,
    };
    let guarded = |name: &str| {
        let name = name.to_ascii_lowercase();
        let part = |(path, guard): &(&str, Guard)| GuardedPath { path: path.into(), guard: *guard, any_case: false };
        GuardedName { parts: parts(&name).iter().map(part).collect(), name }
    };
    policy.protected_places.names().map(guarded).filter(|named| !named.parts.is_empty()).collect()
}

/// Returns the paths, such as repositories, that a command started now may not change because of their names, relative
/// to the root.
pub(crate) fn guarded_by_name(root: &Path, policy: &SandboxPolicy) -> BTreeSet<PathBuf> {
    #[cfg(target_os = "linux")]
    return super::helper::find::find(root, &named(policy), false)
        .into_iter()
        .filter_map(|(path, named)| named.map(|_| path))
        .collect();
    #[cfg(not(target_os = "linux"))]
    return {
        let _ = (root, policy);
        BTreeSet::new()
    };
}

/// Everything the helper reported.
#[derive(Debug, Default)]
pub(crate) struct HelperReport {
    pub(crate) report: Option<SandboxReport>,
    pub(crate) exit: Option<Exit>,
    /// Step and reason of a failure.
    pub(crate) failed: Option<(String, String)>,
}

impl HelperReport {
    pub(crate) fn parse(said: &[u8]) -> Self {
        let mut out = Self::default();
        for line in said.split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Message::Listening) | Err(_) => {}
                Ok(Message::Ready { parts }) => out.report = Some(SandboxReport::new(parts)),
                Ok(Message::Exited { code: Some(code), .. }) => out.exit = Some(Exit::Code(code)),
                Ok(Message::Exited { signal, .. }) => out.exit = Some(Exit::Signal(signal.unwrap_or_default())),
                Ok(Message::Failed { step, reason }) => out.failed = Some((step, reason)),
            }
        }
        out
    }
}

/// Runs `true` in a sandbox without a workspace and with a proxy that allows no host.
#[cfg(target_os = "linux")]
pub(crate) fn try_out(sandbox: &Sandbox) -> SandboxReport {
    use std::time::Duration;

    use crate::shell::capture::StreamedCapture;
    use crate::shell::supervise::{End, Output, supervise};

    if let Err(reason) = sandbox.program() {
        return SandboxReport::none(reason);
    }
    let root = Path::new("/");
    let program = Path::new("/bin/sh");
    let task = Task { root: None, identities: &[], cwd: root, program, text: "true", takes_input: false };
    let policy = SandboxPolicy { network: Network::AllowList(Vec::new()), ..Default::default() };
    let done = sandbox.job(&policy, &task, BTreeMap::new()).map_err(|error| error.to_string()).and_then(|job| {
        // Keep the other end open: nothing cancels a probe.
        let (caller, _wanted) = std::io::pipe().map_err(|error| error.to_string())?;
        let to = Output::Captured(StreamedCapture::new(4 << 10, None));
        supervise(job, Duration::from_secs(10), &caller, to)
            .map_err(|error| format!("the helper could not be started: {error}"))
    });
    let done = match done {
        Ok(done) => done,
        Err(reason) => return SandboxReport::none(reason),
    };
    let said = HelperReport::parse(&done.said);
    match (said.failed, said.report, said.exit, done.end) {
        (Some((step, reason)), ..) => SandboxReport::none(format!("{step}: {reason}")),
        (None, Some(report), Some(Exit::Code(0)), End::Exited(_)) => report,
        (None, Some(_), Some(exit), _) => SandboxReport::none(format!("`true` did not succeed in it: {exit}")),
        _ => SandboxReport::none(
            "the helper did not answer as expected; the program must call `deepagents_fs::sandbox::init()` first in \
             `main`",
        ),
    }
}

//! Changes of the thread between runs: it is rewound, pruned, or continued as a copy.

use anyhow::Result;
use deepagents_core::agent::ThreadAccess;
use deepagents_core::error::Error;
use deepagents_core::journal::{Journal, LogPosition, RetentionPolicy, load};
use serde_json::Value;

use super::attempt::{HANG_TIMEOUT, is_expected};
use super::cast::LEASE;
use super::trial::{ProcessAgent, Trial};

/// Maximum number of checkpoints to choose from.
const MAX_CHECKPOINTS: usize = 40;

/// The complete state of a thread, including its open turn.
pub(crate) type Whole = (Value, String);

impl Trial {
    /// Changes the thread in a separate process while no other process works on it.
    pub(crate) async fn change(&self) -> Result<()> {
        let world = &self.world;
        let thread = world.thread();
        let Some(info) = world.journal.threads().get(&thread).await? else { return Ok(()) };
        if info.end == 0 {
            return Ok(());
        }
        // By then, the leases of ended processes have expired.
        tokio::time::sleep(LEASE * 10).await;
        let works = self.begin_process(2)?;
        // Reads the thread without faults.
        let view = ThreadAccess::new(world.journal.clone(), works.agent.schema().clone());
        let checkpoints = view.history(&thread, None, MAX_CHECKPOINTS).await?;
        let at = usize::try_from(world.below(checkpoints.len() as u64))?;
        let checkpoint = checkpoints.get(at).map_or(info.end, |checkpoint| checkpoint.position);
        // The threads of background agents are not rewound with their parent.
        let in_background = world.scenario.has_background();
        match world.below(3) {
            0 if !in_background => self.rewind(&works, &view, &thread, checkpoint).await?,
            1 => self.prune(&works, &view, &thread, checkpoint).await?,
            _ => {
                let until = (!in_background && world.below(2) == 0).then_some(checkpoint);
                self.copy(&works, &view, &thread, until).await?;
            }
        }
        works.process.end();
        Ok(())
    }

    /// Performs an operation in a process that may crash. Returns whether it is known to have succeeded.
    async fn by(&self, works: &ProcessAgent, what: &str, work: impl Future<Output = Result<(), Error>>) -> bool {
        let world = &self.world;
        world.fault(what);
        tokio::select! {
            biased;
            () = works.process.ended() => {
                world.note("crashed");
                false
            }
            done = tokio::time::timeout(HANG_TIMEOUT, work) => match done {
                Ok(Ok(())) => true,
                Ok(Err(error)) => {
                    world.note(&format!("it failed: {error}"));
                    world.check(is_expected(&error), || format!("{what} failed with {error:?}"));
                    false
                }
                Err(_) => {
                    world.broken(&format!("{what} hangs"));
                    false
                }
            },
        }
    }

    async fn rewind(&self, works: &ProcessAgent, view: &ThreadAccess, thread: &str, to: LogPosition) -> Result<()> {
        let (before, there) = (whole(view, thread, None).await?, whole(view, thread, Some(to)).await?);
        let threads = works.agent.threads()?;
        let done = self.by(works, "a rewind", async { threads.rewind(thread, to).await.map(drop) }).await;
        let now = whole(view, thread, None).await?;
        let fits = renumbered(now.0.clone()) == renumbered(there.0.clone()) || (!done && now == before);
        self.world.check(fits, || format!("back at {to}, the state is {}, and it was {}", now.0, there.0));
        Ok(())
    }

    async fn prune(&self, works: &ProcessAgent, view: &ThreadAccess, thread: &str, from: LogPosition) -> Result<()> {
        let keep = if self.world.below(2) == 0 { RetentionPolicy::Latest } else { RetentionPolicy::From(from) };
        let before = whole(view, thread, None).await?;
        let threads = works.agent.threads()?;
        self.by(works, "a prune", threads.prune(thread, &keep)).await;
        let now = whole(view, thread, None).await?;
        self.world.check(now == before, || format!("pruned with {keep:?}, {before:?} became {now:?}"));
        Ok(())
    }

    /// Continues with a copy. The source must stay unchanged.
    async fn copy(
        &self,
        works: &ProcessAgent,
        view: &ThreadAccess,
        thread: &str,
        until: Option<LogPosition>,
    ) -> Result<()> {
        let world = &self.world;
        let copy = world.next_thread();
        let there = whole(view, thread, until).await?;
        let threads = works.agent.threads()?;
        let copying = async { Ok(threads.journal().threads().copy(thread, &copy, until).await?) };
        let done = self.by(works, "a copy", copying).await;
        if world.journal.threads().get(&copy).await?.is_none() {
            world.check(!done, || format!("{copy} was made and is not there"));
            return Ok(());
        }
        let now = whole(view, &copy, None).await?;
        world.check(now == there, || format!("a copy until {until:?} of {there:?} is {now:?}"));
        let source = whole(view, thread, None).await?;
        world.switch_to_copy(&copy, until);
        self.sources.borrow_mut().push((thread.to_owned(), source));
        Ok(())
    }

    /// Checks that copied threads are unchanged.
    pub(crate) async fn check_sources(&self, works: &ProcessAgent) -> Result<()> {
        let view = ThreadAccess::new(self.world.journal.clone(), works.agent.schema().clone());
        let sources = self.sources.borrow().clone();
        for (thread, before) in sources {
            let now = whole(&view, &thread, None).await?;
            self.world.check(now == before, || format!("{thread} was copied, and became {now:?}"));
        }
        Ok(())
    }
}

/// Removes the pending requests of the open turn, which is numbered differently after a rewind.
fn renumbered(mut state: Value) -> Value {
    for channel in ["questions", "paused_children"] {
        if let Some(channels) = state.as_object_mut() {
            channels.remove(channel);
        }
    }
    state
}

async fn whole(view: &ThreadAccess, thread: &str, at: Option<LogPosition>) -> Result<Whole> {
    let there = load(&**view.journal(), thread, view.schema().clone(), at).await?;
    let open = format!("{:?} {:?} {:?}", there.machine, there.in_doubt, there.late);
    Ok((Value::from(there.state.to_json(true)?), open))
}

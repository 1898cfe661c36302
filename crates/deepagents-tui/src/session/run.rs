//! Starts and resumes runs.

use deepagents::channels::{PinnedSkills, SkillPin};
use deepagents::core::journal::ThreadInfo;
use deepagents::{ActionRequest, DecisionRecord, FinishReason, Message, RunInput, Update};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::drive::{ANSWERED, resuming};
use super::{Problem, Result, Session, Shared};
use crate::app::event::{Event, RunEnd};
use crate::host::Connection;
use crate::text::shorten;

/// Maximum characters of a thread's title, which is taken from its first message.
const MAX_TITLE_CHARS: usize = 80;

impl Session {
    /// Starts a run with a message.
    pub(super) fn submit(
        &self,
        text: String,
        context: Vec<String>,
        skills: Vec<String>,
        decided: Vec<(ActionRequest, DecisionRecord)>,
    ) {
        if self.is_background_open() {
            self.spawn(|this| async move {
                // It may have ended meanwhile.
                if !this.send_to_background(&text, &context).await {
                    this.submit_here(text, context, skills, decided);
                }
                Ok(None)
            });
        } else {
            self.submit_here(text, context, skills, decided);
        }
    }

    /// Starts a run with a message on the open thread.
    fn submit_here(
        &self,
        text: String,
        context: Vec<String>,
        skills: Vec<String>,
        decided: Vec<(ActionRequest, DecisionRecord)>,
    ) {
        let job = self.new_job();
        // Sending a message makes undone turns impossible to redo.
        self.with(|state| state.redo_positions.clear());
        let unsent = text.clone();
        self.spawn(|this| async move {
            let begun = async {
                let mut connection = this.ready().await?;
                let is_offered = |skill: &String| connection.offered.iter().any(|offered| offered.name == *skill);
                if skills.iter().any(is_offered) {
                    // Using a skill by name approves it for this session.
                    this.host.agree(Some(&skills)).await?;
                    this.connect(None);
                    connection = this.ready().await?;
                }
                if let Some(thread) = this.owned(&connection).await? {
                    return Err(thread_busy_message(&thread).into());
                }
                this.catch_up(&connection).await?;
                let told = this.decided_results(&connection, decided).await?;
                let (thread, note) = this.begin_thread(&connection, &text).await?;
                let (message, pictures) = this.message(&connection, text).await;
                this.show_pictures(pictures);
                let messages = told.into_iter().chain(context.into_iter().map(Message::harness)).chain([message]);
                let mut input = RunInput::messages(messages).thread(&thread);
                if !skills.is_empty() {
                    input = input.update(Update::new::<PinnedSkills>(SkillPin::Pin(skills)));
                }
                Ok::<_, Problem>((this.with_goal(&connection, input)?, note, connection))
            };
            Ok(this.drive_when(begun, job, Some(unsent)).await)
        });
    }

    /// Resumes a run that waits for these decisions or was left unfinished.
    pub(super) fn resume(&self, answers: Vec<(String, DecisionRecord)>, by_force: bool) {
        let job = match answers.as_slice() {
            [] => self.new_job(),
            // It gets what was sent after the run had told of its questions, before they were shown.
            _ => self.with(Shared::next_job),
        };
        self.spawn(|this| async move {
            let begun = async {
                let connection = this.ready().await?;
                let thread = this.thread().ok_or("there is no thread to resume")?;
                if !by_force && let Some(thread) = this.owned(&connection).await? {
                    let problem = if answers.is_empty() { thread_busy_message(&thread) } else { ANSWERED.to_owned() };
                    return Err(problem.into());
                }
                let note = this.noted(&connection, &thread, this.current_metadata()).await?;
                let input = resuming(&thread, answers);
                Ok::<_, Problem>((if by_force { input.take_over() } else { input }, note, connection))
            };
            Ok(this.drive_when(begun, job, None).await)
        });
    }

    /// Drives the run that `begun` prepares, unless it is cancelled first.
    async fn drive_when(
        &self,
        begun: impl Future<Output = Result<(RunInput, Map<String, Value>, Connection)>> + Send,
        job: CancellationToken,
        unsent: Option<String>,
    ) -> Option<Event> {
        let stop = tokio::select! {
            begun = begun => match begun {
                Ok((input, note, connection)) => return Some(self.drive(&connection, input, note, job).await),
                Err(problem) => Err(problem.to_string()),
            },
            () = job.cancelled() => Ok(FinishReason::Cancelled),
        };
        self.emit(RunEnd::without_outcome(stop, unsent));
        self.follow_again();
        None
    }

    /// Returns the open thread if another live process owns it.
    async fn owned(&self, connection: &Connection) -> Result<Option<String>> {
        let Some(thread) = self.thread() else { return Ok(None) };
        let info = connection.journal.threads().get(&thread).await?;
        Ok(info.is_some_and(|info| is_owned(self, &info)).then_some(thread))
    }

    /// Returns the thread for a message, and the metadata that it shall record. Creates and titles a new thread if none
    /// is open.
    async fn begin_thread(&self, connection: &Connection, text: &str) -> Result<(String, Map<String, Value>)> {
        let mut metadata = self.current_metadata();
        metadata.insert("model".to_owned(), json!(connection.model));
        let thread = match self.thread() {
            Some(thread) => thread,
            None => {
                let id = self.host.new_thread(&*connection.journal).await?;
                // What the agent redacts in the message is redacted in the title too.
                let hidden = connection.agent.receive_text(text)?;
                metadata.insert("title".to_owned(), json!(shorten(&hidden, MAX_TITLE_CHARS)));
                self.with(|state| state.thread = Some(id.clone()));
                id
            }
        };
        let note = self.noted(connection, &thread, metadata).await?;
        Ok((thread, note))
    }

    /// Returns the metadata that a thread used here records, as of now.
    pub(super) fn current_metadata(&self) -> Map<String, Value> {
        self.host.metadata(self.policy.mode())
    }

    /// Returns the metadata for a thread to record once this process owns it.
    async fn noted(
        &self,
        connection: &Connection,
        thread: &str,
        metadata: Map<String, Value>,
    ) -> Result<Map<String, Value>> {
        // A thread keeps the directory in which it was started.
        let known = connection.journal.threads().get(thread).await?;
        let has_root = known.is_some_and(|info| info.metadata.contains_key("root"));
        Ok(metadata.into_iter().filter(|(key, _)| !has_root || key != "root").collect())
    }
}

/// Returns whether another program works on a thread.
pub(super) fn is_owned(this: &Session, info: &ThreadInfo) -> bool {
    info.owner.is_some() && !this.host.is_gone(info)
}

fn thread_busy_message(thread: &str) -> String {
    format!(
        "another program is working on the thread {thread}; wait until it is done, take it over with /takeover, or begin a \
         thread of your own with /new"
    )
}

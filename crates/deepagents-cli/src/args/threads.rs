//! The command line of `deepagents threads`, and the option for the thread database.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::positive;
use crate::duration;

const EXAMPLES: &str = "\
Examples:
  deepagents threads list
  deepagents threads show 4f1c09a2 --history
  deepagents threads show 4f1c09a2 --path task:2.0
  deepagents threads show 4f1c09a2/task_5be0a7c412
  deepagents threads rewind 4f1c09a2 12
  deepagents threads fork 4f1c09a2 --at 12 && deepagents run --continue \"Try it another way\"
  deepagents threads prune --all --older-than 30d

Name a thread by its id or the beginning of it. `show --history` lists positions.";

/// Where threads are stored.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Database {
    /// The thread database [default: ~/.deepagents/threads.db]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Threads")]
    pub(crate) db: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct ThreadsArgs {
    #[command(flatten)]
    pub(crate) database: Database,

    #[command(subcommand)]
    pub(crate) command: ThreadsCommand,
}

/// Whether files are rewound with a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RewindFiles {
    /// They do
    Yes,
    /// They stay as they are
    No,
    /// You are shown what would change, and asked at the terminal
    #[default]
    Ask,
}

/// What to do about files that somebody else has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Conflicts {
    /// Nothing is rewound
    Refuse,
    /// They stay as they are
    Skip,
    /// They are overwritten; rewinding again brings them back
    Overwrite,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ThreadsCommand {
    /// List threads, most recently changed first, each with its background tasks below it
    List {
        /// Only the background tasks of this thread
        #[arg(long, value_name = "ID", conflicts_with = "all")]
        parent: Option<String>,
        /// All threads, background tasks among them, as one list
        #[arg(long)]
        all: bool,
        /// At most this many
        #[arg(long, value_name = "N", default_value = "50", allow_negative_numbers = true, value_parser = positive::<u32>)]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what was said and done in a thread; a background task is named THREAD/TASK
    Show {
        /// The thread
        thread: String,
        /// As it was at this position
        #[arg(long, value_name = "POSITION", allow_negative_numbers = true, value_parser = position)]
        at: Option<u64>,
        /// The positions to which the thread can be rewound, instead of the conversation
        #[arg(long, conflicts_with = "at")]
        history: bool,
        /// A timeline, run by run, with tokens, cost and waiting, instead of the conversation
        #[arg(long, conflicts_with_all = ["at", "history"])]
        timeline: bool,
        /// The conversation of this sub-agent, as in task:2.0, or task:2.0/task:1.0 for one below it
        #[arg(long, value_name = "PATH", conflicts_with_all = ["at", "history", "timeline"])]
        path: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a thread with its background tasks to a new one, and print its ID
    Fork {
        /// The thread
        thread: String,
        /// Only up to this position
        #[arg(long, value_name = "POSITION", allow_negative_numbers = true, value_parser = position)]
        at: Option<u64>,
    },
    /// Rewind a thread to an earlier position; what came after it stays in the log
    ///
    /// The files that the agent has changed since are restored too. Files that somebody else has changed are
    /// overwritten only if you say so. What commands changed stays as it is.
    Rewind {
        /// The thread
        thread: String,
        /// The position, one of those that `threads show THREAD --history` lists
        #[arg(allow_negative_numbers = true, value_parser = position)]
        position: Option<u64>,
        /// Whether files are rewound too
        #[arg(long, value_name = "WHETHER", value_enum, default_value_t)]
        files: RewindFiles,
        /// What to do about files that somebody else has changed; if absent, you are asked at the terminal
        #[arg(long, value_name = "WHAT", value_enum)]
        conflicts: Option<Conflicts>,
    },
    /// Delete threads with their background tasks
    Delete {
        /// The threads
        #[arg(required = true)]
        threads: Vec<String>,
        /// Also those that another program is working on; its run fails at its next step
        #[arg(long)]
        force: bool,
    },
    /// Remove the history of threads and of background tasks whose results were delivered; their current state stays
    #[command(
        override_usage = "deepagents threads prune [OPTIONS] <THREADS>...\n       deepagents threads prune [OPTIONS] --all"
    )]
    Prune {
        /// The threads
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        threads: Vec<String>,
        /// All threads, except those being worked on, which are listed
        #[arg(long)]
        all: bool,
        /// Only what is older than this, as in 30d
        #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = duration::parse)]
        older_than: Option<Duration>,
    },
    /// Print a thread with its state, its log and its background tasks as one JSON document
    Export {
        /// The thread
        thread: String,
    },
}

/// Parses a position in the log of a thread.
fn position(text: &str) -> Result<u64, String> {
    let wrong =
        |_| format!("`{text}` is not a position; `deepagents threads show --history THREAD` lists those of a thread");
    text.trim().parse().map_err(wrong)
}

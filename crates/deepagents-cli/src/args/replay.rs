//! The command line of `deepagents replay`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  deepagents run --record run.jsonl \"Summarise the notes\"
  deepagents replay run.jsonl

The exit code is that of the recorded run. It is 1, and the first difference is reported, if this program would do
something other than what was recorded; it is also 1 if the recording ends before its run did.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The recording
    pub(crate) file: PathBuf,

    /// Print only the final answer: text for people, without control characters
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print every event as a line of JSON, and nothing else: for programs, with texts as they were recorded
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,
}

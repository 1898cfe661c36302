//! The command line of `deepagents demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::serve::address;

#[derive(Debug, Default, Args)]
pub(crate) struct DemoArgs {
    /// Where to put the demo's files: a new or empty directory; one of its own by default
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Leave out the pauses that let a person follow
    #[arg(long)]
    pub(crate) fast: bool,

    /// Show it in a browser, with the files kept in memory
    #[arg(long, conflicts_with = "dir")]
    pub(crate) web: bool,

    /// The address to listen on for the browser, on this machine only [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "web")]
    pub(crate) listen: Option<SocketAddr>,
}

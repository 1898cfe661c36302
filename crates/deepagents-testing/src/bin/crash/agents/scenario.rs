//! The scenarios. To add one, add a variant, its name and its plan.

use super::plan::{FilesIn, MAIN, Operation, Plan};
use Operation::{Delegate, Look, Pay, Put, Send, Start, Steal};

/// A kind of work to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// The main agent alone: with calls, with files and decisions, or with compaction.
    Main,
    /// One sub-agent.
    Child,
    /// Several sub-agents in one turn, two of them of the same kind.
    Parallel,
    /// Sub-agents two levels deep.
    Nested,
    /// Sub-agents that change files in the state.
    StateFiles,
    /// Sub-agents that change files on disk.
    DiskFiles,
    /// Sub-agents that change files in a store.
    StoreFiles,
    /// The conversations of the main agent and its sub-agent are compacted.
    Compaction,
    /// Sub-agents that wait for a person, two of them at once.
    Approval,
    /// Two background agents, and a sub-agent that is waited for.
    Background,
}

impl Scenario {
    pub(crate) const ALL: [Self; 10] = [
        Self::Main,
        Self::Child,
        Self::Parallel,
        Self::Nested,
        Self::StateFiles,
        Self::DiskFiles,
        Self::StoreFiles,
        Self::Compaction,
        Self::Approval,
        Self::Background,
    ];

    /// Scenarios that the program has as well.
    pub(crate) const OF_PROGRAM: [Self; 5] = [Self::Main, Self::Child, Self::Parallel, Self::Nested, Self::Approval];

    /// Number of plans per scenario.
    pub(crate) const SIZES: usize = 3;

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Child => "child",
            Self::Parallel => "parallel",
            Self::Nested => "nested",
            Self::StateFiles => "state-files",
            Self::DiskFiles => "disk-files",
            Self::StoreFiles => "store-files",
            Self::Compaction => "compaction",
            Self::Approval => "approval",
            Self::Background => "background",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.as_str() == name)
    }

    /// Returns what its agents do. A larger size means more work, or a variant.
    pub(crate) fn plan(self, size: usize) -> Plan {
        let n = size + 2;
        match self {
            Self::Main => alone(size),
            Self::Child => {
                Plan::new(vec![vec![Send], vec![Delegate("c1")], vec![Send]]).agent(("c1", "worker", MAIN), work(n))
            }
            Self::Parallel => {
                let all = vec![Delegate("c1"), Delegate("c2"), Send, Delegate("c3")];
                Plan::new(vec![all, vec![Send]])
                    .agent(("c1", "worker", MAIN), work(n))
                    .agent(("c2", "worker", MAIN), work(2))
                    .agent(("c3", "other", MAIN), vec![vec![Send]; n])
            }
            Self::Nested => Plan::new(vec![vec![Send, Delegate("m1")], vec![Send]])
                .agent(("m1", "middle", MAIN), vec![vec![Send], vec![Delegate("c1"), Delegate("c2"), Send], vec![Send]])
                .agent(("c1", "worker", "middle"), work(n))
                .agent(("c2", "worker", "middle"), vec![vec![Send]; 2]),
            Self::StateFiles => files(FilesIn::State, n),
            Self::DiskFiles => files(FilesIn::Disk, n),
            Self::StoreFiles => files(FilesIn::Store, n),
            Self::Compaction => {
                let before = vec![vec![Send]; n + 2];
                let plan = Plan::new([before.clone(), vec![vec![Delegate("c1"), Send]], before].concat())
                    .agent(("c1", "worker", MAIN), vec![vec![Send]; n + 4]);
                Plan { compacts: true, ..plan }
            }
            Self::Background => {
                let both = vec![Start("c1"), Send, Start("c2")];
                Plan::new(vec![both, vec![Delegate("c3"), Send], vec![Send]])
                    .agent(("c1", "worker", MAIN), work(n))
                    .agent(("c2", "worker", MAIN), vec![vec![Send, Put]; n])
                    .agent(("c3", "other", MAIN), vec![vec![Send]; 2])
            }
            Self::Approval => {
                let all = vec![Delegate("c1"), Delegate("c2"), Delegate("c3")];
                Plan::new(vec![all, vec![Send]])
                    .agent(("c1", "worker", MAIN), vec![vec![Send], vec![Pay, Send], vec![Send]])
                    .agent(("c2", "worker", MAIN), vec![vec![Send]; n])
                    .agent(("c3", "other", MAIN), vec![vec![Steal], vec![Send], vec![Pay]])
            }
        }
    }
}

fn work(turns: usize) -> Vec<Vec<Operation>> {
    let kinds = [vec![Send], vec![Send, Look, Put, Send], vec![Put, Send]];
    kinds.into_iter().cycle().take(turns).collect()
}

/// A main agent that does in turn everything that sub-agents do.
fn alone(size: usize) -> Plan {
    match size {
        0 => Plan::new([work(4), vec![vec![Send; 3]]].concat()),
        1 => {
            let decided = vec![vec![Pay, Send], vec![Steal]];
            let plan = Plan::new([changes("/main.md", 4), decided, changes("/results/more.md", 2)].concat());
            Plan { files: FilesIn::Disk, ..plan }
        }
        _ => Plan { compacts: true, ..Plan::new(vec![vec![Send]; 9]) },
    }
}

/// Creates a file and changes it the given number of times, with external effects in between.
fn changes(path: &str, times: usize) -> Vec<Vec<Operation>> {
    let text = |version: usize| format!("{path} in version {version}");
    let mut turns = vec![vec![Operation::write(path, format!("{}\nand more\n", text(0)))]];
    for version in 1..times {
        turns.push(vec![Operation::edit(path, text(version - 1), text(version)), Send]);
    }
    turns
}

fn files(files: FilesIn, times: usize) -> Plan {
    let main = changes("/main.md", times);
    let (before, after) = main.split_at(1);
    let turns = [before, &[vec![Delegate("c1"), Delegate("c2")]], after].concat();
    let plan = Plan::new(turns)
        .agent(("c1", "worker", MAIN), changes("/results/one.md", times))
        .agent(("c2", "worker", MAIN), changes("/results/two.md", times + 1));
    Plan { files, ..plan }
}

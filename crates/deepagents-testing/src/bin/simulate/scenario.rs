//! What is simulated, drawn from a seed: the agents, their turns, and how unreliable the world is.

use fastrand::Rng;

/// The name of the main agent.
pub(crate) const MAIN: &str = "main";

/// Maximum depth of agents below the main agent.
const MAX_DEPTH: usize = 3;

/// What the agents of a seed do.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The main agent first, and every other agent after the one that delegates to it.
    pub(crate) agents: Vec<AgentPlan>,
    /// Whether conversations are compacted after a few messages.
    pub(crate) compacts: bool,
    pub(crate) weather: Weather,
    /// Number of disturbed rounds before the world is left in peace.
    pub(crate) rounds: usize,
}

/// How unreliable the world is, as chances per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// That a journal call is faulty.
    pub(crate) journal: u32,
    /// That the process crashes at an append.
    pub(crate) crash: u32,
    /// That a model fails.
    pub(crate) model: u32,
}

/// An agent. Each agent gets its task once.
#[derive(Clone, Debug)]
pub(crate) struct AgentPlan {
    pub(crate) name: String,
    /// The agent that delegates to it, or `None` for the main agent.
    pub(crate) above: Option<String>,
    pub(crate) turns: Vec<Vec<Operation>>,
}

/// A call in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An external effect that must not be repeated.
    Send,
    /// An external effect that may be repeated under the same key.
    Put,
    /// A read without an effect.
    Look,
    /// An external effect that a person approves or edits first.
    Pay,
    /// An effect that a person rejects.
    Steal,
    /// An external effect about which the call itself asks a person.
    Ask,
    /// Creates a file.
    Write,
    /// Delegates to another agent.
    Delegate(String),
    /// Starts a background agent.
    Start(String),
}

impl Operation {
    pub(crate) fn tool(&self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Put => "put",
            Self::Look => "look",
            Self::Pay => "pay",
            Self::Steal => "steal",
            Self::Ask => "ask",
            Self::Write => "write_file",
            Self::Delegate(_) => "task",
            Self::Start(_) => "start_async_task",
        }
    }
}

impl Scenario {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let mut agents = vec![AgentPlan { name: MAIN.to_owned(), above: None, turns: turns(rng, 2..6) }];
        let (background, mut depths) = (rng.u32(0..3) == 0, vec![0]);
        for number in 1..=rng.usize(0..4) {
            let name = format!("c{number}");
            let above = rng.usize(0..agents.len());
            let depth = depths.get(above).copied().unwrap_or(0);
            if depth >= MAX_DEPTH {
                continue;
            }
            let starts = background && above == 0 && rng.bool();
            let operation = if starts { Operation::Start(name.clone()) } else { Operation::Delegate(name.clone()) };
            let Some(parent) = agents.get_mut(above) else { continue };
            let parent_name = parent.name.clone();
            let at = rng.usize(0..parent.turns.len());
            if let Some(turn) = parent.turns.get_mut(at) {
                turn.insert(rng.usize(0..=turn.len()), operation);
            }
            depths.push(depth + 1);
            agents.push(AgentPlan { name, above: Some(parent_name), turns: turns(rng, 1..4) });
        }
        let compacts = rng.u32(0..4) == 0;
        if compacts && let Some(main) = agents.first_mut() {
            main.turns.extend(turns(rng, 4..7));
        }
        let weather = match rng.u32(0..4) {
            0 => Weather::default(),
            1 => Weather { journal: 30, ..Weather::default() },
            2 => Weather { crash: 60, ..Weather::default() },
            _ => Weather { journal: 60, crash: 40, model: 30 },
        };
        Self { agents, compacts, weather, rounds: rng.usize(1..6) }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&AgentPlan> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Returns the agents to which an agent delegates.
    pub(crate) fn below(&self, name: &str) -> impl Iterator<Item = &AgentPlan> {
        self.agents.iter().filter(move |agent| agent.above.as_deref() == Some(name))
    }

    /// Whether an agent has its own thread or works below an agent that does.
    pub(crate) fn is_in_background(&self, name: &str) -> bool {
        let mut operations = self.agents.iter().flat_map(|agent| agent.turns.iter().flatten());
        let starts = operations.any(|operation| matches!(operation, Operation::Start(started) if started == name));
        let above = self.find(name).and_then(|agent| agent.above.as_deref());
        starts || above.is_some_and(|above| self.is_in_background(above))
    }

    /// Whether there are background agents.
    pub(crate) fn has_background(&self) -> bool {
        let mut operations = self.agents.iter().flat_map(|agent| agent.turns.iter().flatten());
        operations.any(|operation| matches!(operation, Operation::Start(_)))
    }
}

fn turns(rng: &mut Rng, count: std::ops::Range<usize>) -> Vec<Vec<Operation>> {
    (0..rng.usize(count)).map(|_| (0..rng.usize(1..4)).map(|_| operation(rng)).collect()).collect()
}

fn operation(rng: &mut Rng) -> Operation {
    match rng.u32(0..16) {
        0..6 => Operation::Send,
        6..8 => Operation::Put,
        8..10 => Operation::Look,
        10..12 => Operation::Write,
        12 => Operation::Pay,
        13 => Operation::Steal,
        _ => Operation::Ask,
    }
}

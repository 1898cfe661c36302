//! The backend of the example passes the suite.

#[allow(dead_code, reason = "the example's own program")]
#[path = "../../../examples/backend.rs"]
mod example;

use std::sync::Arc;

use deepagents_testing::suites::backend::Files;
use example::Notes;

deepagents_testing::backend_suite!(async || Some(Files::new(Arc::new(Notes::default()))));

#[test]
fn the_example_backend_takes_less_than_sixty_lines() {
    let text = include_str!("../../../examples/backend.rs");
    let from = text.lines().skip_while(|line| !line.starts_with("/// Notes in memory"));
    let lines = from.take_while(|line| *line != "#[tokio::main]").count();
    assert!((20..60).contains(&lines), "{lines}");
}

//! The scripted model answers of the demo.

use std::time::Duration;

use deepagents::models::scripted::Turn;
use serde_json::{Value, json};

/// The task given to the agent.
pub(super) const TASK: &str =
    "Settle our expenses for March: who owes whom? Write report.md and tick it off in the notes.";

const PLAN: [&str; 4] = [
    "See what files there are",
    "Read the list, the notes and the receipts",
    "Work out the shares and write /report.md",
    "Tick March off in /notes.md and check the report",
];

/// The result of the list and the notes.
const REPORT: &str = "\
# Expenses, March 2025

| who | paid | share | balance |
|-----|-----:|------:|--------:|
| Ada | 131.35 | 126.40 | +4.95 |
| Mia | 183.86 | 126.40 | +57.46 |
| Tom | 63.99 | 126.40 | -62.41 |
| all | 379.20 | 379.20 | 0.00 |

**Tom pays Mia 57.46 and Ada 4.95.**

Left out, as the notes say: the internet bill's second entry (39.99) and Ada's headphones (89.90).
The electricity bill (112.50) agrees with its receipt. The bank statement was out of reach and is not part of this.
";

const ANSWER: &str = "\
March is settled: **Tom pays Mia 57.46 and Ada 4.95.**

Of 509.09 on the list, 379.20 is shared, 126.40 each: I left out the internet bill's second entry and Ada's headphones, \
as your notes say. The table is in /report.md, and March is ticked off in /notes.md. One thing is open: the bank \
statement lies outside of this directory, so I did not compare the list with it.";

/// Returns a call that updates the plan: `done` items completed and the next one in progress.
fn todos(done: usize) -> (&'static str, Value) {
    let items = PLAN.iter().enumerate().map(|(at, content)| {
        let status = match at {
            _ if at < done => "completed",
            _ if at == done => "in_progress",
            _ => "pending",
        };
        json!({"content": content, "status": status})
    });
    ("write_todos", json!({"todos": items.collect::<Vec<_>>()}))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({"file_path": path}))
}

/// Returns the answers, each after a pause.
pub(super) fn turns(pause: Duration) -> Vec<Turn> {
    let turns = [
        Turn::calls([todos(0), ("ls", json!({"path": "/"})), ("ls", json!({"path": "/receipts"}))])
            .and_text("I'll make a plan and see what is there."),
        Turn::calls([
            todos(1),
            read("/expenses.csv"),
            read("/notes.md"),
            read("/receipts/electricity.txt"),
        ]),
        Turn::calls([todos(2), read("../bank/march.csv")]).and_text(
            "Nine entries, one of them twice and one private. The notes mention a bank statement; I'll see whether I can get at it.",
        ),
        Turn::calls([("write_file", json!({"file_path": "/report.md", "content": REPORT}))])
            .and_text("It lies outside of the directory I may use, so I go by the list and the receipt."),
        Turn::calls([
            todos(3),
            (
                "edit_file",
                json!({
                    "file_path": "/notes.md",
                    "old_string": "- [ ] settle March",
                    "new_string": "- [x] settle March (see report.md)",
                }),
            ),
            read("/report.md"),
        ]),
        Turn::calls([todos(4)]),
        Turn::text(ANSWER),
    ];
    turns.into_iter().map(|turn| turn.delay(pause)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::files::{EXPENSES, NOTES, RECEIPT};
    use super::*;

    /// Returns the list in cents: day of the month, who, what, amount.
    fn rows() -> Vec<(u32, String, String, i64)> {
        let fields = |line: &str| {
            let (mut fields, mut quoted) = (vec![String::new()], false);
            for c in line.chars() {
                match c {
                    '"' => quoted = !quoted,
                    ',' if !quoted => fields.push(String::new()),
                    c => fields.last_mut().unwrap().push(c),
                }
            }
            fields
        };
        EXPENSES
            .lines()
            .skip(1)
            .map(|line| {
                let row = fields(line);
                let day = if row[0].contains('-') { row[0].rsplit('-').next() } else { row[0].split('.').next() };
                let cents = row[3].replace([',', '.'], "").parse().unwrap();
                (day.unwrap().parse().unwrap(), row[1].to_lowercase(), row[2].to_lowercase(), cents)
            })
            .collect()
    }

    fn euros(cents: i64) -> String {
        format!("{}.{:02}", cents / 100, cents % 100)
    }

    #[test]
    fn the_demo_report_agrees_with_its_files() {
        let mut shared = rows();
        let listed: i64 = shared.iter().map(|row| row.3).sum();
        shared.dedup();
        shared.retain(|row| row.2 != "headphones");
        let total: i64 = shared.iter().map(|row| row.3).sum();
        assert_eq!(total % 3, 0);
        let share = total / 3;
        let mut paid: BTreeMap<&str, i64> = BTreeMap::new();
        for (_, who, _, cents) in &shared {
            *paid.entry(who).or_default() += cents;
        }
        assert!(ANSWER.contains(&format!(
            "Of {} on the list, {} is shared, {} each",
            euros(listed),
            euros(total),
            euros(share)
        )));
        for (who, name) in [("ada", "Ada"), ("mia", "Mia")] {
            let owed = euros(paid[who] - share);
            assert!(
                REPORT.contains(&format!("| {name} | {} | {} | +{owed} |", euros(paid[who]), euros(share))),
                "{name}"
            );
            assert!(ANSWER.contains(&format!("{name} {owed}")));
        }
        let owes = share - paid["tom"];
        assert!(REPORT.contains(&format!("| Tom | {} | {} | -{} |", euros(paid["tom"]), euros(share), euros(owes))));
        assert!(RECEIPT.contains("112.50") && NOTES.contains("- [ ] settle March"));
    }
}

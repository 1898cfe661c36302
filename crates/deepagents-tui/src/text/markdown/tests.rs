//! Tests of Markdown rendering.

use super::*;

#[test]
fn no_line_exceeds_the_screen_width_however_deeply_nested() {
    let nested = |mark: &str| -> String {
        (0..60).map(|depth| format!("{}{mark} some words of it\n", " ".repeat(depth * (mark.len() + 1)))).collect()
    };
    let quotes: String = (1..60).map(|depth| format!("{} some words of it\n>\n", ">".repeat(depth))).collect();
    for text in [nested("-"), nested("1."), quotes, format!("{}- ```\n{}code", nested("-"), " ".repeat(120))] {
        for columns in [8, 20, 40, 80, 200] {
            let lines = markdown(&text, columns, Theme::plain());
            let widest = lines.iter().map(|line| crate::text::width(&line.to_string())).max().unwrap();
            assert!(widest <= columns, "{widest} of {columns}: {text}");
            let whole = lines.iter().filter(|line| line.to_string().contains("some")).count();
            assert!(columns < 20 || whole >= 59, "words stay whole at {columns} columns: {text}");
        }
    }
}

#[test]
fn a_partly_received_table_is_never_taken_as_finished() {
    let text = "Words.\n\n| a | b |\n|---|---|\n| `x` | 1 |\n| y | 2 |\n\nMore words.\n\nThe end.\n";
    let (table, after) = (text.find("| a").unwrap(), text.find("More").unwrap());
    for end in 0..=text.len() {
        let come = text.get(..end).unwrap();
        let (start, _) = last_block(come);
        assert!(start <= table || (start >= after && end > after), "{come:?}");
    }
    assert_eq!(last_block(text).0, text.find("The end").unwrap());
}

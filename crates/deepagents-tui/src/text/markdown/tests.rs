//! Tests of Markdown rendering.

use super::*;

#[test]
fn the_target_of_a_link_around_an_image_is_shown_too() {
    let lines = markdown("[![safe](badge.png)](https://other.example)", 80, Theme::plain());
    assert_eq!(lines[0].to_string(), "safe (badge.png) (https://other.example)");
}

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

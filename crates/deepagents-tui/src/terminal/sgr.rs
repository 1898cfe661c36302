//! Styles as the terminal understands them.

use ratatui::style::{Color, Modifier, Style};

/// The sequence that sets a style, whatever was set before. Colours are left out where none are wanted.
pub(super) fn sgr(style: Style, colour: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x1b[0");
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::CROSSED_OUT, "9"),
    ];
    for (modifier, code) in modifiers {
        if style.add_modifier.contains(modifier) {
            out.push(b';');
            out.extend_from_slice(code.as_bytes());
        }
    }
    if colour {
        paint(style.fg, 30, out);
        paint(style.bg, 40, out);
    }
    out.push(b'm');
}

fn paint(color: Option<Color>, base: u8, out: &mut Vec<u8>) {
    let number = match color {
        None | Some(Color::Reset) => return,
        Some(Color::Rgb(r, g, b)) => {
            out.extend_from_slice(format!(";{};2;{r};{g};{b}", base + 8).as_bytes());
            return;
        }
        Some(Color::Indexed(index)) => {
            out.extend_from_slice(format!(";{};5;{index}", base + 8).as_bytes());
            return;
        }
        Some(Color::Black) => 0,
        Some(Color::Red) => 1,
        Some(Color::Green) => 2,
        Some(Color::Yellow) => 3,
        Some(Color::Blue) => 4,
        Some(Color::Magenta) => 5,
        Some(Color::Cyan) => 6,
        Some(Color::Gray) => 7,
        Some(Color::DarkGray) => 60,
        Some(Color::LightRed) => 61,
        Some(Color::LightGreen) => 62,
        Some(Color::LightYellow) => 63,
        Some(Color::LightBlue) => 64,
        Some(Color::LightMagenta) => 65,
        Some(Color::LightCyan) => 66,
        Some(Color::White) => 67,
    };
    out.extend_from_slice(format!(";{}", base + number).as_bytes());
}

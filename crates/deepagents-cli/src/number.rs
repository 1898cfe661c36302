//! Whole numbers on the command line.

use std::str::FromStr;

/// Reads a whole number of 1 or more.
pub(crate) fn positive<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, String> {
    let number = text.trim().parse::<N>().ok().filter(|number| *number >= N::from(1));
    number.ok_or_else(|| format!("`{text}` is no whole number from 1 on"))
}

/// Reads a position in the log of a thread.
pub(crate) fn position(text: &str) -> Result<u64, String> {
    let wrong = |_| format!("`{text}` is no position; `deepagents threads show --history` lists those of a thread");
    text.trim().parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_from_1_on_are_positive() {
        assert_eq!((positive("1"), positive(" 70000 "), position("0")), (Ok(1_u32), Ok(70_000_u64), Ok(0)));
        for wrong in ["0", "-1", "1.5", "", "many", "99999999999"] {
            assert!(positive::<u32>(wrong).is_err(), "{wrong}");
        }
    }
}

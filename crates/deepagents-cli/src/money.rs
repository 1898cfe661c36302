//! US dollars as people write and read them.

/// Parses `0.5` or `$0.50`: an amount above 0.
pub(crate) fn parse(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let amount = text.strip_prefix('$').unwrap_or(text).parse::<f64>().ok();
    let amount = amount.filter(|amount| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| format!("`{text}` is not an amount of dollars above 0; write it as in 0.50"))
}

/// Formats an amount: `$0.50`, and small ones with as many digits as they need: `$0.0031`.
pub(crate) fn show(amount: f64) -> String {
    // Two significant digits, and at least cents.
    let mut digits = 2;
    while digits < 8 && amount > 0.0 && amount < 10_f64.powi(1 - digits) {
        digits += 1;
    }
    format!("${amount:.0$}", usize::try_from(digits).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_parsed_with_or_without_the_dollar_sign_and_nothing_else_is() {
        assert_eq!((parse("0.5"), parse("$12"), parse(" 1e-3 ")), (Ok(0.5), Ok(12.0), Ok(0.001)));
        for wrong in ["", "$", "0", "-1", "inf", "NaN", "1e400", "1,50", "5 €"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn small_amounts_keep_two_digits() {
        let all = [0.0, 0.5, 12.0, 0.1, 0.02, 0.003_12, 0.000_75, 1e-12].map(show);
        assert_eq!(all, ["$0.00", "$0.50", "$12.00", "$0.10", "$0.020", "$0.0031", "$0.00075", "$0.00000000"]);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in ".{0,12}") {
            let _ = parse(&text);
        }
    }
}

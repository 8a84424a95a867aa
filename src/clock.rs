//! Durations as users write them (`5m`, `1h30m`), parsed as Go does.

use std::time::Duration;

/// A duration that could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{found:?} is no duration: write a number and a unit of h, m, s or ms, such as 5m or 1h30m")]
pub struct InvalidDuration {
    found: String,
}

/// Parses `1h30m`, `90s`, `500ms`. No sign, no fraction; zero must carry a unit too.
///
/// # Errors
/// If the text is empty, lacks a unit, or is too large.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration {
        found: text.to_owned(),
    };
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[..letters] {
            "h" => Duration::from_secs(3600),
            "m" => Duration::from_secs(60),
            "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return Err(invalid()),
        };
        let number = u32::try_from(number).map_err(|_| invalid())?;
        total = unit
            .checked_mul(number)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(invalid)?;
        rest = &rest[letters..];
    }
    if text.is_empty() {
        Err(invalid())
    } else {
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_units_alone_and_in_a_row() {
        for (text, seconds) in [("5m", 300), ("1h30m", 5400), ("90s", 90), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn refuses_what_has_no_unit_or_is_no_number() {
        for text in ["", "5", "m", "-5m", "5 m", "1.5h", "5d", "99999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}

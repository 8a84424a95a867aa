//! Text -> amount, with the grammar, the rounding and the caps of `resource.ParseQuantity`.

use std::str::FromStr;

use super::{Format, NANOS_PER_UNIT, Quantity};

/// A text that is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuantity {
    /// Not a number with a suffix.
    #[error("found {0:?}, expected an amount such as 500m, 1.5Gi or 1e3")]
    Malformed(String),
    /// A number with an unknown suffix.
    #[error(
        "found {found:?}, whose suffix {suffix:?} is none of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, eN"
    )]
    Suffix {
        /// The whole text.
        found: String,
        /// What follows the number.
        suffix: String,
    },
    /// More than 128 bits of nano units hold.
    #[error("found {0:?}, which is more than any cluster has")]
    TooLarge(String),
}

/// The most that a binary amount can be: a larger one counts as this, as in Kubernetes.
const BINARY_CAP: i128 = i64::MAX as i128 * NANOS_PER_UNIT;

/// What the suffix stands for: base^exponent.
struct Scale {
    format: Format,
    exponent: i64,
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let malformed = || InvalidQuantity::Malformed(text.to_owned());
        if text.is_empty() {
            return Err(malformed());
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest),
            None => ("", rest),
        };
        if !is_suffix(suffix) {
            return Err(malformed());
        }
        let scale = scale(suffix).ok_or_else(|| InvalidQuantity::Suffix {
            found: text.to_owned(),
            suffix: suffix.to_owned(),
        })?;
        let magnitude = magnitude(whole, fraction, &scale);
        let magnitude = match (magnitude, scale.format) {
            (Some(nanos), Format::BinarySI) => nanos.min(BINARY_CAP),
            (None, Format::BinarySI) => BINARY_CAP,
            (Some(nanos), Format::DecimalSI | Format::DecimalExponent) => nanos,
            (None, Format::DecimalSI | Format::DecimalExponent) => {
                return Err(InvalidQuantity::TooLarge(text.to_owned()));
            }
        };
        let format = match scale.format {
            Format::BinarySI if (1..NANOS_PER_UNIT).contains(&magnitude) => Format::DecimalSI,
            format => format,
        };
        let nanos = if negative { -magnitude } else { magnitude };
        Ok(Self { nanos, format })
    }
}

/// The digits in front, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// Letters of suffixes, a sign, digits.
fn is_suffix(text: &str) -> bool {
    let rest = text.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    rest.bytes().all(|digit| digit.is_ascii_digit())
}

fn scale(suffix: &str) -> Option<Scale> {
    let decimal = |exponent| (Format::DecimalSI, exponent);
    let binary = |exponent| (Format::BinarySI, exponent);
    let (format, exponent) = match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => (
            Format::DecimalExponent,
            suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
        ),
    };
    Some(Scale { format, exponent })
}

/// `whole.fraction × base^exponent` in nano units, rounded away from zero; none if 128 bits are too few.
fn magnitude(whole: &str, fraction: &str, scale: &Scale) -> Option<i128> {
    let (factor, shift) = match scale.format {
        Format::BinarySI => (1u64 << scale.exponent, 9),
        Format::DecimalSI | Format::DecimalExponent => (1, scale.exponent.saturating_add(9)),
    };
    let places = shift.saturating_sub(i64::try_from(fraction.len()).ok()?);
    if whole.len() + fraction.len() > 18 {
        return long(&times(whole.bytes().chain(fraction.bytes()), factor), places);
    }
    let digits = whole.bytes().chain(fraction.bytes());
    let number = digits.fold(0, |number: u64, digit| number * 10 + u64::from(digit - b'0'));
    let number = i128::from(number) * i128::from(factor);
    match (
        number,
        u32::try_from(places.unsigned_abs())
            .ok()
            .and_then(|places| 10i128.checked_pow(places)),
    ) {
        (0, _) => Some(0),
        (_, Some(power)) if places >= 0 => number.checked_mul(power),
        (_, Some(power)) => Some(number / power + i128::from(number % power != 0)),
        (_, None) if places >= 0 => None,
        (_, None) => Some(1),
    }
}

/// The decimal digits (0 to 9) of a number, given by its ASCII digits, times the factor.
fn times(digits: impl DoubleEndedIterator<Item = u8>, factor: u64) -> Vec<u8> {
    let mut product = Vec::new();
    let mut carry: u128 = 0;
    for digit in digits.rev() {
        carry += u128::from(digit - b'0') * u128::from(factor);
        product.push((carry % 10) as u8);
        carry /= 10;
    }
    while carry > 0 {
        product.push((carry % 10) as u8);
        carry /= 10;
    }
    product.reverse();
    product
}

/// A number of so many digits that 128 bits may not hold them all, times 10^places, rounded up.
fn long(digits: &[u8], places: i64) -> Option<i128> {
    let dropped = usize::try_from(places.min(0).unsigned_abs()).unwrap_or(usize::MAX);
    let (kept, dropped) = digits.split_at(digits.len().saturating_sub(dropped));
    let number = kept.iter().try_fold(0i128, |number, digit| {
        number.checked_mul(10)?.checked_add(i128::from(*digit))
    })?;
    let number = match (number, u32::try_from(places.max(0))) {
        (0, _) => 0,
        (_, Ok(places)) => number.checked_mul(10i128.checked_pow(places)?)?,
        (_, Err(_)) => return None,
    };
    number.checked_add(i128::from(dropped.iter().any(|digit| *digit != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_amount_is_refused_with_what_was_found() {
        for (text, error) in [
            ("", "found \"\", expected an amount such as 500m, 1.5Gi or 1e3"),
            (
                "1.5.0Gi",
                "found \"1.5.0Gi\", expected an amount such as 500m, 1.5Gi or 1e3",
            ),
            (
                "1 Gi",
                "found \"1 Gi\", expected an amount such as 500m, 1.5Gi or 1e3",
            ),
            (
                "two",
                "found \"two\", expected an amount such as 500m, 1.5Gi or 1e3",
            ),
            ("1e999", "found \"1e999\", which is more than any cluster has"),
            (
                "1e99999999999999999999",
                "found \"1e99999999999999999999\", whose suffix \"e99999999999999999999\" is none of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, eN",
            ),
            (
                "1KiB",
                "found \"1KiB\", expected an amount such as 500m, 1.5Gi or 1e3",
            ),
            (
                "1Gim",
                "found \"1Gim\", whose suffix \"Gim\" is none of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, eN",
            ),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn what_is_less_than_a_nano_unit_counts_as_one() {
        for text in [
            "1e-999",
            "0.1n",
            "0.0000000000000000000000000000000000000000000001",
            "1e-9223372036854775808",
        ] {
            assert_eq!(text.parse::<Quantity>().map(|read| read.nanos()), Ok(1), "{text}");
        }
        assert_eq!("-0.1n".parse::<Quantity>().map(|read| read.nanos()), Ok(-1));
    }

    #[test]
    fn binary_amounts_end_at_63_bits() {
        for text in ["9Ei", "100000000000000000000000000000000000000000Ei"] {
            assert_eq!(text.parse::<Quantity>().unwrap().nanos(), BINARY_CAP, "{text}");
        }
    }
}

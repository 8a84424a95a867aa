//! Amount -> its canonical text: the largest suffix that needs no fraction.

use std::fmt;

use super::{Format, NANOS_PER_UNIT, Quantity};

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_small = self.nanos.abs() < 1024 * NANOS_PER_UNIT;
        match self.format {
            _ if self.is_zero() => out.write_str("0"),
            Format::BinarySI if !is_small && self.nanos % NANOS_PER_UNIT == 0 => binary(self.nanos, out),
            Format::BinarySI | Format::DecimalSI => {
                let (number, exponent) = decimal(self.nanos, 18);
                write!(out, "{number}{}", suffix(exponent))
            }
            Format::DecimalExponent => match decimal(self.nanos, i32::MAX) {
                (number, 0) => write!(out, "{number}"),
                (number, exponent) => write!(out, "{number}e{exponent}"),
            },
        }
    }
}

fn binary(nanos: i128, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut number = nanos / NANOS_PER_UNIT;
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next().unwrap_or_default();
    while number % 1024 == 0 {
        let Some(next) = suffixes.next() else { break };
        suffix = next;
        number /= 1024;
    }
    write!(out, "{number}{suffix}")
}

/// The number without thousands, and the power of ten (a multiple of three, at most `largest`) it is to be taken by.
fn decimal(nanos: i128, largest: i32) -> (i128, i32) {
    let (mut number, mut exponent) = (nanos, -9);
    while number % 1000 == 0 && exponent + 3 <= largest {
        number /= 1000;
        exponent += 3;
    }
    (number, exponent)
}

fn suffix(exponent: i32) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

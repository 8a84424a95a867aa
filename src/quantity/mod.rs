//! Amounts of resources as Kubernetes writes them (`500m`, `1.5Gi`, `1e3`) -> exact numbers, and back (pure).
//!
//! The rules are those of `resource.Quantity` in k8s.io/apimachinery: what it reads is read, rounded and capped the
//! same way, and printed in its canonical form. `tests/it/quantity.tsv` holds what it answered. Two differences: a
//! number too large for 128 bits of nano units is an error here, and decimal numbers from 10^21 on keep the suffix `E`
//! (`1000E`), which Kubernetes loses.

mod parse;
mod print;

pub use parse::InvalidQuantity;

use std::cmp::Ordering;

/// The family of suffixes that an amount was written in, and is printed in if that loses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `1M`, `500m`, or no suffix.
    DecimalSI,
    /// `1Mi`.
    BinarySI,
    /// `1e6`.
    DecimalExponent,
}

/// An exact amount, in units of 10⁻⁹. Two amounts are equal if their numbers are, whatever their formats.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

const NANOS_PER_UNIT: i128 = 1_000_000_000;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self {
        nanos: 0,
        format: Format::DecimalSI,
    };

    /// A whole number, such as a count of pods.
    #[must_use]
    pub fn whole(number: u64) -> Self {
        Self {
            nanos: i128::from(number) * NANOS_PER_UNIT,
            format: Format::DecimalSI,
        }
    }

    /// The number in units of 10⁻⁹.
    #[must_use]
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// The family of suffixes.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether it is less than nothing, which no request may be.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// The sum, in the format of the first addend that is not zero. Ends at the largest number rather than wrapping.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            format: if self.is_zero() { other.format } else { self.format },
        }
    }

    /// So many times the amount. Ends at the largest number rather than wrapping.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self {
            nanos: self.nanos.saturating_mul(i128::from(count)),
            format: self.format,
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn sums_are_exact_and_keep_the_format_of_the_first_that_is_not_zero() {
        for (addends, sum) in [
            (&["20Gi", "10Gi"][..], "30Gi"), // V40
            (&["500m", "1500m"], "2"),       // V60
            (&["1Gi", "1G"], "2073741824"),  // V60
            (&["1G", "1Gi"], "2073741824"),
            (&["100Ki", "100Ki", "100Ki"], "300Ki"), // V60
            (&["1e3", "1"], "1001"),                 // V60
            (&["0", "1Gi"], "1Gi"),
            (&["0Gi", "1k"], "1k"),
            (&["0.1", "0.2"], "300m"),
        ] {
            let total = addends
                .iter()
                .fold(Quantity::ZERO, |sum, text| sum.plus(quantity(text)));
            assert_eq!(total.to_string(), sum, "{addends:?}");
        }
    }

    #[test]
    fn arithmetic_ends_at_the_largest_number() {
        let huge = quantity("100e27");
        assert!(huge.times(u64::MAX) > huge);
        assert!(huge.times(u64::MAX).plus(huge) > huge);
        assert_eq!(quantity("64Gi").times(1 << 31).to_string(), "128Ei");
    }

    #[test]
    fn equality_is_that_of_the_numbers() {
        assert_eq!(quantity("1000m"), quantity("1"));
        assert_eq!(quantity("1Ki"), quantity("1.024k"));
        assert!(quantity("1Gi") > quantity("1G"));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_as_the_same_number(
            number in "[+-]?[0-9]{1,12}(\\.[0-9]{0,12})?",
            suffix in prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2", "e+6"]),
        ) {
            let read = quantity(&format!("{number}{suffix}"));
            prop_assert_eq!(quantity(&read.to_string()), read);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,24}") {
            let _ = text.parse::<Quantity>();
        }
    }
}

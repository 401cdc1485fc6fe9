//! A figure with its formula, and the formatting of figures.

use serde::Serialize;

use crate::figures::{count, size};

/// A value and the formula that computes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub value: f64,
    pub formula: String,
}

impl Figure {
    pub fn new(value: f64, formula: impl Into<String>) -> Figure {
        Figure { value, formula: formula.into() }
    }

    pub fn none() -> Figure {
        Figure::new(0.0, "none")
    }

    #[must_use]
    pub fn plus(self, other: Figure) -> Figure {
        if other.value == 0.0 {
            return self;
        }
        if self.value == 0.0 {
            return other;
        }
        Figure::new(self.value + other.value, format!("{} + {}", self.formula, other.formula))
    }
}

/// The average rate and the rate in the busiest second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rate {
    pub average_per_second: f64,
    pub peak_per_second: f64,
}

impl Rate {
    #[must_use]
    pub fn times(self, factor: f64) -> Rate {
        Rate {
            average_per_second: self.average_per_second * factor,
            peak_per_second: self.peak_per_second * factor,
        }
    }
}

/// Sums the values. The sum of no values is 0; `Iterator::sum` of floats would return -0.
pub fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// Formats a value: whole numbers from 1,000 on, below with up to 1, 2 or 4 decimals by size.
pub fn plain(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        below if below < 0.01 => 4,
        below if below < 10.0 => 2,
        below if below < 999.95 => 1,
        // The cast is exact enough: the bounds of the flags keep values far below 2^64.
        _ => return count(value.round() as u64),
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats a value for a column of comparable values: below 1,000 always with two decimals.
pub fn compared(value: f64) -> String {
    if value < 1_000.0 { format!("{value:.2}") } else { plain(value) }
}

pub fn bytes(value: f64) -> String {
    size(value.round() as u64)
}

pub fn dollars(value: f64) -> String {
    match value {
        small if small < 0.01 && small > 0.0 => format!("${small:.4}"),
        medium if medium < 1_000.0 => format!("${medium:.2}"),
        _ => format!("${}", plain(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_to_significant_digits() {
        for (value, shown) in [
            (0.0, "0"),
            (0.0016, "0.0016"),
            (0.333_33, "0.33"),
            (1.0, "1"),
            (2.5, "2.5"),
            (640.0, "640"),
            (999.94, "999.9"),
            (999.96, "1,000"),
            (1_234.5, "1,235"),
            (1e12, "1,000,000,000,000"),
        ] {
            assert_eq!(plain(value), shown);
        }
        assert_eq!([dollars(0.005), dollars(3.9), dollars(1e6)], ["$0.0050", "$3.90", "$1,000,000"]);
    }

    #[test]
    fn sum_formula_lists_its_parts_and_omits_zeros() {
        let sum = Figure::new(1.0, "1 row").plus(Figure::none()).plus(Figure::new(2.0, "2 marks"));
        assert_eq!((sum.value, sum.formula.as_str()), (3.0, "1 row + 2 marks"));
        assert_eq!(Figure::none().plus(Figure::new(2.0, "2 marks")).formula, "2 marks");
    }
}

//! Costs as integers, so that comparing sums is exact and the same everywhere.
//!
//! Authors write decimals. `0.1 + 0.2` must tie with `0.3`, which binary floating point denies; so each cost is taken as
//! the shortest decimal that reads back as the same number, and all costs of one problem share one power of ten.

/// Costs may not pass this many units each, so that sums over long plans fit in the packed key of the search.
const UNITS_MAX: u128 = 1 << 50;
/// Decimal places that are tried before costs are rounded to a binary scale instead.
const PLACES_MAX: u32 = 15;

/// The costs of a problem as whole units of one scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Amounts {
    /// Cost of each action in units.
    pub(crate) units: Vec<u64>,
    /// How many units make 1.0.
    per_one: f64,
    /// Whether the units are the costs exactly.
    exact: bool,
}

impl Amounts {
    /// Converts non-negative finite costs: exactly where one power of ten suits all, else rounded to about 15 digits of the
    /// largest.
    pub(crate) fn of(costs: &[f64]) -> Self {
        let decimals: Vec<Option<(u128, u32)>> = costs.iter().map(|&cost| decimal(cost)).collect();
        let places = decimals.iter().map(|d| d.map_or(PLACES_MAX + 1, |(_, places)| places)).max().unwrap_or(0);
        if places <= PLACES_MAX {
            let units: Option<Vec<u64>> = decimals.iter().map(|d| d.and_then(|d| scaled(d, places))).collect();
            if let Some(units) = units {
                return Amounts { units, per_one: 10f64.powi(places as i32), exact: true };
            }
        }
        let largest = costs.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let per_one = 2f64.powi((50 - largest.log2().ceil() as i32).clamp(-1000, 1000));
        let units = costs.iter().map(|cost| (cost * per_one).round() as u64).collect();
        Amounts { units, per_one, exact: false }
    }

    /// Returns the sum of the costs of a sequence of actions, `0.3` for `0.1` and `0.2`.
    pub(crate) fn total(&self, costs: impl Iterator<Item = (usize, f64)>) -> f64 {
        let (mut units, mut plain) = (0u128, 0.0);
        for (action, cost) in costs {
            units += u128::from(self.units.get(action).copied().unwrap_or(0));
            plain += cost;
        }
        if self.exact { units as f64 / self.per_one } else { plain }
    }
}

/// Adds up decimal numbers of any sign without the error of binary sums: in units of 1e-18 while they fit.
pub(crate) fn exact_sum(values: impl Iterator<Item = f64>) -> i128 {
    values.fold(0i128, |sum, value| sum.saturating_add(fixed(value)))
}

/// Returns the number that [`exact_sum`] stands for.
pub(crate) fn from_exact(sum: i128) -> f64 {
    format!("{sum}e-18").parse().unwrap_or(sum as f64 / 1e18)
}

fn fixed(value: f64) -> i128 {
    let size = match decimal(value.abs()) {
        Some((digits, places)) if places <= 18 => {
            digits.saturating_mul(10u128.pow(18 - places)).min(i128::MAX as u128) as i128
        }
        _ => (value.abs() * 1e18) as i128,
    };
    if value < 0.0 { -size } else { size }
}

/// Returns a non-negative number as `digits * 10^-places`, from its shortest decimal form.
fn decimal(value: f64) -> Option<(u128, u32)> {
    if value == value.trunc() && value < 9e15 {
        return Some((value as u128, 0));
    }
    let text = format!("{value}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, u32::try_from(fraction.len()).ok()?))
}

fn scaled((digits, places): (u128, u32), to: u32) -> Option<u64> {
    let units = digits.checked_mul(10u128.checked_pow(to - places)?)?;
    (units <= UNITS_MAX).then_some(units as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_add_up() {
        let amounts = Amounts::of(&[0.1, 0.2, 0.3]);
        assert_eq!(amounts.units, [1, 2, 3]);
        assert_eq!(amounts.total([(0, 0.1), (1, 0.2)].into_iter()), 0.3);
        assert_eq!(exact_sum([0.1, 0.2, -0.3].into_iter()), 0);
        assert_eq!(from_exact(exact_sum([0.1, 0.2].into_iter())), 0.3);
    }

    #[test]
    fn thirds_huge_and_tiny_costs_still_order() {
        let amounts = Amounts::of(&[1.0 / 3.0, 1e300, 0.0, 1e-300]);
        assert!(amounts.units[1] > amounts.units[0]);
        assert_eq!(amounts.units[2], 0);
        let tiny = Amounts::of(&[1e-300, 2e-300]);
        assert!(tiny.units[1] > tiny.units[0], "{tiny:?}");
        assert!(Amounts::of(&[f64::MAX]).units[0] > 0);
    }
}

//! The functions and constants of expressions.

use num::bigint::BigInt;
use num::integer::Integer;
use num::rational::BigRational;
use num::traits::{One, Signed, ToPrimitive, Zero};

use super::parse::ten_to;
use super::{bounded, exact_root, float, nearest, shown};

/// The largest number whose factorial is given, which has 2568 digits.
const FACTORIAL_MAX: u64 = 1_000;
/// The most digits that are rounded to.
const DIGITS_MAX: i64 = 300;

/// A function of numbers.
pub(super) struct Function {
    name: &'static str,
    /// The least and the greatest number of numbers that it takes.
    takes: (usize, usize),
    does: fn(&[BigRational]) -> Result<BigRational, String>,
}

/// Every function.
const FUNCTIONS: &[Function] = &[
    of("abs", 1, |n| Ok(n[0].abs())),
    of("sign", 1, |n| Ok(n[0].signum())),
    of("floor", 1, |n| Ok(n[0].floor())),
    of("ceil", 1, |n| Ok(n[0].ceil())),
    of("trunc", 1, |n| Ok(n[0].trunc())),
    Function { name: "round", takes: (1, 2), does: round },
    many("min", |n| Ok(n.iter().min().cloned().unwrap_or_else(BigRational::zero))),
    many("max", |n| Ok(n.iter().max().cloned().unwrap_or_else(BigRational::zero))),
    many("sum", sum),
    many("mean", |n| Ok(sum(n)? / whole(n.len()))),
    many("median", median),
    many("gcd", |n| fold_whole("gcd", n, |a, b| a.gcd(b))),
    many("lcm", |n| fold_whole("lcm", n, |a, b| a.lcm(b))),
    of("factorial", 1, factorial),
    of("sqrt", 1, |n| root(&n[0], 2, "sqrt")),
    of("cbrt", 1, |n| root(&n[0], 3, "cbrt")),
    of("root", 2, |n| {
        let degree = n[1].is_integer().then(|| n[1].to_integer().to_u32()).flatten().filter(|d| (1..=64).contains(d));
        root(&n[0], degree.ok_or("the degree of `root` is a whole number from 1 to 64")?, "root")
    }),
    of("exp", 1, |n| float_of("exp", n, |x| x[0].exp())),
    of("ln", 1, |n| logarithm("ln", &n[0], f64::ln)),
    Function { name: "log", takes: (1, 2), does: log },
    of("log2", 1, |n| logarithm("log2", &n[0], f64::log2)),
    of("log10", 1, |n| logarithm("log10", &n[0], f64::log10)),
    of("sin", 1, |n| float_of("sin", n, |x| x[0].sin())),
    of("cos", 1, |n| float_of("cos", n, |x| x[0].cos())),
    of("tan", 1, |n| float_of("tan", n, |x| x[0].tan())),
    of("asin", 1, |n| float_of("asin", n, |x| x[0].asin())),
    of("acos", 1, |n| float_of("acos", n, |x| x[0].acos())),
    of("atan", 1, |n| float_of("atan", n, |x| x[0].atan())),
    of("atan2", 2, |n| float_of("atan2", n, |x| x[0].atan2(x[1]))),
    of("degrees", 1, |n| float_of("degrees", n, |x| x[0].to_degrees())),
    of("radians", 1, |n| float_of("radians", n, |x| x[0].to_radians())),
    many("hypot", |n| root(&bounded(n.iter().map(|x| x * x).sum())?, 2, "hypot")),
];

/// Constants, to 31 digits.
const CONSTANTS: &[(&str, &str)] = &[
    ("pi", "3.141592653589793238462643383280"),
    ("e", "2.718281828459045235360287471353"),
    ("tau", "6.283185307179586476925286766559"),
];

const fn of(name: &'static str, takes: usize, does: fn(&[BigRational]) -> Result<BigRational, String>) -> Function {
    Function { name, takes: (takes, takes), does }
}

const fn many(name: &'static str, does: fn(&[BigRational]) -> Result<BigRational, String>) -> Function {
    Function { name, takes: (1, usize::MAX), does }
}

/// The function of a name.
pub(super) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// The constant of a name.
pub(super) fn constant(name: &str) -> Option<BigRational> {
    CONSTANTS.iter().find(|(constant, _)| *constant == name).and_then(|(_, digits)| super::parse::decimal(digits))
}

/// Names of functions and constants.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.name).chain(CONSTANTS.iter().map(|(name, _)| *name))
}

impl Function {
    /// The function's value.
    pub(super) fn apply(&self, numbers: &[BigRational]) -> Result<BigRational, String> {
        let (least, most) = self.takes;
        if (least..=most).contains(&numbers.len()) {
            return (self.does)(numbers);
        }
        let takes = match (least, most) {
            (1, 1) => "1 number".to_owned(),
            (least, usize::MAX) => format!("{least} number or more"),
            (least, most) if least == most => format!("{least} numbers"),
            (least, most) => format!("{least} or {most} numbers"),
        };
        Err(format!("`{}` takes {takes}, not {}", self.name, numbers.len()))
    }
}

fn whole(number: usize) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

fn sum(numbers: &[BigRational]) -> Result<BigRational, String> {
    numbers.iter().try_fold(BigRational::zero(), |sum, number| bounded(sum + number))
}

/// Half away from zero, as prices and school have it.
fn round(numbers: &[BigRational]) -> Result<BigRational, String> {
    let Some(digits) = numbers.get(1) else { return Ok(numbers[0].round()) };
    let digits = digits.is_integer().then(|| digits.to_integer().to_i64()).flatten();
    let digits = digits.filter(|digits| digits.abs() <= DIGITS_MAX);
    let digits = digits.ok_or("the digits of `round` are a whole number from -300 to 300")?;
    let scale = ten_to(digits);
    Ok((&numbers[0] * &scale).round() / scale)
}

fn median(numbers: &[BigRational]) -> Result<BigRational, String> {
    let mut sorted = numbers.to_vec();
    sorted.sort();
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        Ok(sorted[middle].clone())
    } else {
        Ok((&sorted[middle - 1] + &sorted[middle]) / whole(2))
    }
}

fn fold_whole(
    name: &str,
    numbers: &[BigRational],
    fold: impl Fn(&BigInt, &BigInt) -> BigInt,
) -> Result<BigRational, String> {
    let mut all = numbers.iter().map(|number| match number.is_integer() {
        true => Ok(number.to_integer()),
        false => Err(format!("`{name}` takes whole numbers, not {}", shown(number))),
    });
    let first = all.next().unwrap_or_else(|| Ok(BigInt::zero()))?;
    let folded = all.try_fold(first, |folded, number| {
        bounded(BigRational::from_integer(fold(&folded, &number?))).map(|bounded| bounded.to_integer())
    })?;
    Ok(BigRational::from_integer(folded.abs()))
}

fn factorial(numbers: &[BigRational]) -> Result<BigRational, String> {
    let number = numbers[0].is_integer().then(|| numbers[0].to_integer().to_u64()).flatten();
    let number = number.filter(|number| *number <= FACTORIAL_MAX);
    let number = number.ok_or_else(|| format!("`factorial` takes a whole number from 0 to {FACTORIAL_MAX}"))?;
    Ok(BigRational::from_integer((1..=number).fold(BigInt::one(), |product, next| product * next)))
}

fn root(number: &BigRational, degree: u32, name: &str) -> Result<BigRational, String> {
    if number.is_negative() && degree.is_even() {
        return Err(format!("`{name}` of the negative number {} is not defined", shown(number)));
    }
    if let Some(exact) = exact_root(number, degree) {
        return Ok(exact);
    }
    let x = float(number, name)?;
    let root = match degree {
        2 => x.sqrt(),
        3 => x.cbrt(),
        _ => x.signum() * x.abs().powf(1.0 / f64::from(degree)),
    };
    nearest(root, name)
}

fn float_of(name: &str, numbers: &[BigRational], does: impl Fn(&[f64]) -> f64) -> Result<BigRational, String> {
    let floats = numbers.iter().map(|number| float(number, name)).collect::<Result<Vec<_>, _>>()?;
    nearest(does(&floats), &format!("`{name}` of {}", numbers.iter().map(shown).collect::<Vec<_>>().join(", ")))
}

fn logarithm(name: &str, number: &BigRational, does: fn(f64) -> f64) -> Result<BigRational, String> {
    if !number.is_positive() {
        return Err(format!("`{name}` takes a number above 0, not {}", shown(number)));
    }
    nearest(does(float(number, name)?), name)
}

fn log(numbers: &[BigRational]) -> Result<BigRational, String> {
    let Some(base) = numbers.get(1) else { return logarithm("log", &numbers[0], f64::log10) };
    if !base.is_positive() || base.is_one() {
        return Err(format!("the base of `log` is a number above 0 other than 1, not {}", shown(base)));
    }
    let base = float(base, "log")?;
    logarithm_with(&numbers[0], base)
}

fn logarithm_with(number: &BigRational, base: f64) -> Result<BigRational, String> {
    if !number.is_positive() {
        return Err(format!("`log` takes a number above 0, not {}", shown(number)));
    }
    let x = float(number, "log")?;
    nearest(if base == 2.0 { x.log2() } else { x.ln() / base.ln() }, "log")
}

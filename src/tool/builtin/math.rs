//! `builtin:math`: one tool that calculates, in exact fractions as far as the functions allow.

mod functions;
mod parse;

use futures::FutureExt;
use num::bigint::{BigInt, BigUint};
use num::integer::Integer;
use num::rational::BigRational;
use num::traits::{One, Signed, ToPrimitive, Zero};
use serde_json::Value;

use crate::action::context::{Context, Failure};
use crate::tool::Tool;
use crate::value::ShapeKind;

use super::{Native, arguments, failure, required, text, tool};

/// The longest expression, in characters.
const CHARS_MAX: usize = 2_000;
/// The most bits of a numerator or denominator, about 3000 digits.
const BITS_MAX: u64 = 10_000;
/// Whole numbers with more digits come as text, as JSON readers would round them.
const WHOLE_MAX: u64 = 9_007_199_254_740_991;

pub(super) fn tools() -> Vec<Tool> {
    let description = "Calculates a number from an expression such as (19.99 * 3 + 4.50) * 1.19. + - * / are exact \
        (0.1 + 0.2 is 0.3), // divides to a whole number, % is the remainder, ** or ^ is the power. Functions: abs sign \
        floor ceil trunc round(x, digits) min max sum mean median gcd lcm factorial sqrt cbrt root(x, n) exp ln \
        log(x, base 10 unless given) log2 log10 sin cos tan asin acos atan atan2(y, x) (radians) degrees radians hypot. \
        Constants: pi e tau.";
    let parameters = vec![("expression", required(ShapeKind::String, "What to calculate, such as round(2 / 3, 4)"))];
    let body = Native { kind: "math", permissions: &[], run: |cx: &dyn Context| async move { calculate(cx) }.boxed() };
    vec![Tool { trusted: true, ..tool("calculate", description, parameters, body) }]
}

fn calculate(cx: &dyn Context) -> Result<Value, Failure> {
    evaluate(text(arguments(cx), "expression")).map(|number| json(&number)).map_err(failure)
}

/// The number that an expression stands for.
fn evaluate(expression: &str) -> Result<BigRational, String> {
    if expression.chars().count() > CHARS_MAX {
        return Err(format!("the expression is longer than the {CHARS_MAX} characters that are read"));
    }
    parse::evaluate(expression)
}

/// A number as JSON: whole where it is, else the nearest there is; a whole number too large for that as its digits.
fn json(number: &BigRational) -> Value {
    if number.is_integer() {
        let whole = number.to_integer();
        return match whole.to_i64().filter(|whole| whole.unsigned_abs() <= WHOLE_MAX) {
            Some(whole) => Value::from(whole),
            None => Value::from(whole.to_string()),
        };
    }
    number.to_f64().filter(|float| float.is_finite()).map_or_else(|| Value::from(number.to_string()), Value::from)
}

/// Refuses numbers that would take too long to go on with.
fn bounded(number: BigRational) -> Result<BigRational, String> {
    if number.numer().bits() > BITS_MAX || number.denom().bits() > BITS_MAX {
        return Err("the result has more than 3000 digits".to_owned());
    }
    Ok(number)
}

/// The number that is nearest to a result which no fraction gives exactly: 15 digits of it.
fn nearest(float: f64, what: &str) -> Result<BigRational, String> {
    if !float.is_finite() {
        return Err(format!("{what} is not defined, or too large"));
    }
    // The last digit or two of such a result are noise; 15 digits make sin(pi) a plain 0 and sqrt(2)**2 what it looks like.
    let shown = format!("{float:.14e}");
    let rounded = parse::decimal(&shown).ok_or_else(|| format!("{what} is not defined"))?;
    Ok(if float.abs() < 1e-15 { BigRational::zero() } else { rounded })
}

/// A number as the nearest float.
fn float(number: &BigRational, what: &str) -> Result<f64, String> {
    number.to_f64().filter(|float| float.is_finite()).ok_or_else(|| format!("the number in {what} is too large"))
}

/// The power; exact for whole exponents and where the root is.
fn power(base: &BigRational, exponent: &BigRational) -> Result<BigRational, String> {
    if let Some(whole) = exponent.is_integer().then(|| exponent.to_integer()) {
        if base.is_zero() && whole.is_negative() {
            return Err("0 has no negative power".to_owned());
        }
        if base.is_zero() || base.abs().is_one() {
            let is_odd = whole.bit(0);
            let one = BigRational::one();
            return Ok(match (whole.is_zero(), base.is_zero(), base.is_negative() && is_odd) {
                (true, ..) => one,
                (_, true, _) => BigRational::zero(),
                (_, _, true) => -one,
                _ => one,
            });
        }
        let bits = base.numer().bits().max(base.denom().bits()).saturating_sub(1).max(1);
        let small = whole.abs().to_u64().filter(|times| bits.saturating_mul(*times) <= BITS_MAX);
        let times = small.and_then(|times| i32::try_from(times).ok()).ok_or("the power has more than 3000 digits")?;
        let power = base.pow(times);
        return bounded(if whole.is_negative() { power.recip() } else { power });
    }
    if base.is_negative() {
        return Err(format!("{} has no power of {exponent}: negative numbers have whole powers only", shown(base)));
    }
    let (numerator, degree) = (exponent.numer(), exponent.denom().to_u32().filter(|degree| *degree <= 64));
    if let Some(exact) = degree.and_then(|degree| exact_root(base, degree)) {
        return power(&exact, &BigRational::from_integer(numerator.clone()));
    }
    nearest(float(base, "the power")?.powf(float(exponent, "the exponent")?), "the power")
}

/// The root where it is a fraction.
fn exact_root(number: &BigRational, degree: u32) -> Option<BigRational> {
    let part = |part: &BigInt| {
        let root: BigUint = part.magnitude().nth_root(degree);
        (root.pow(degree) == *part.magnitude()).then(|| BigInt::from(root))
    };
    let root = BigRational::new(part(number.numer())?, part(number.denom())?);
    match number.is_negative() {
        true if degree.is_even() => None,
        true => Some(-root),
        false => Some(root),
    }
}

/// A number in messages.
fn shown(number: &BigRational) -> String {
    match json(number) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value(expression: &str) -> Value {
        match evaluate(expression) {
            Ok(number) => json(&number),
            Err(why) => panic!("{expression}: {why}"),
        }
    }

    #[test]
    fn arithmetic_is_exact() {
        for (expression, expected) in [
            ("0.1 + 0.2", json!(0.3)),
            ("(19.99 * 3 + 4.50) * 1.19", json!(76.7193)),
            ("1/3 + 1/3 + 1/3", json!(1)),
            ("2 + 3 * 4 ** 2", json!(50)),
            ("2 ^ 3 ^ 2", json!(512)),
            ("-2 ** 2", json!(-4)),
            ("2 ** -1", json!(0.5)),
            ("7 // 2", json!(3)),
            ("-7 // 2", json!(-4)),
            ("-7 % 3", json!(2)),
            ("7.5 % 2", json!(1.5)),
            ("1e3 + 1_000", json!(2000)),
            (".5 * 4", json!(2)),
            ("2 × 3 ÷ 4 − 1", json!(0.5)),
            ("9007199254740991", json!(9_007_199_254_740_991_i64)),
            ("2**100", json!("1267650600228229401496703205376")),
            ("2**0.5 * 2**0.5", json!(2.0)),
            ("0**0", json!(1)),
            ("4 ** 1.5", json!(8)),
        ] {
            let found = value(expression);
            let close = found.as_f64().zip(expected.as_f64()).is_some_and(|(a, b)| (a - b).abs() < 1e-12);
            assert!(found == expected || (close && expression.contains("0.5 *")), "{expression}: {found}");
        }
    }

    #[test]
    fn functions_give_what_they_promise() {
        for (expression, expected) in [
            ("round(2.5)", json!(3)),
            ("round(-2.5)", json!(-3)),
            ("round(2/3, 4)", json!(0.6667)),
            ("round(1234, -2)", json!(1200)),
            ("floor(-1.5) + ceil(1.2) + trunc(-1.9)", json!(-1)),
            ("min(3, 1, 2) + max(3, 1, 2)", json!(4)),
            ("sum(0.1, 0.2, 0.3)", json!(0.6)),
            ("mean(1, 2, 6)", json!(3)),
            ("median(5, 1, 3, 2)", json!(2.5)),
            ("gcd(12, 18) + lcm(4, 6)", json!(18)),
            ("factorial(20)", json!("2432902008176640000")),
            ("sqrt(1/4)", json!(0.5)),
            ("cbrt(-27) + root(16, 4)", json!(-1)),
            ("ln(e)", json!(1)),
            ("log(1000) + log(8, 2) + log2(8) + log10(100)", json!(11)),
            ("sin(pi)", json!(0)),
            ("cos(0) + atan2(0, 1)", json!(1)),
            ("degrees(pi) + radians(0)", json!(180)),
            ("hypot(3, 4)", json!(5)),
            ("sign(-3) * abs(-2)", json!(-2)),
        ] {
            assert_eq!(value(expression), expected, "{expression}");
        }
        assert_eq!(value("sqrt(2)").to_string(), "1.4142135623731");
    }

    #[test]
    fn what_cannot_be_calculated_is_said_with_its_place() {
        for (expression, says) in [
            ("", "the expression is empty"),
            ("1 / 0", "division by zero"),
            ("5 % (1 - 1)", "division by zero"),
            ("2 +", "expected a number after `+`"),
            ("2 3", "expected an operator before `3`"),
            ("(1 + 2", "`(` is not closed"),
            ("1 + 2)", "`)` without `(`"),
            ("1,000 + 1", "thousands"),
            ("sqr(2)", "did you mean `sqrt`"),
            ("x * 2", "there is no constant `x`"),
            ("sqrt(-1)", "negative"),
            ("ln(0)", "ln"),
            ("round()", "`round` takes 1 or 2 numbers"),
            ("atan2(1)", "`atan2` takes 2 numbers"),
            ("factorial(2.5)", "whole"),
            ("factorial(100000)", "factorial"),
            ("9**9**9", "3000 digits"),
            ("2 $ 3", "`$`"),
            ("1e999999", "exponent"),
            ("20% of 50", "`of`"),
            ("sqrt 4", "`sqrt(…)`"),
            ("(-8)**0.5", "negative"),
        ] {
            let why = evaluate(expression).unwrap_err();
            assert!(why.contains(says), "{expression}: {why}");
        }
        assert!(evaluate(&"(".repeat(1_500)).unwrap_err().contains("deep"));
        assert!(evaluate(&"-".repeat(1_500)).unwrap_err().contains("deep"));
        assert!(evaluate(&"1+".repeat(1_500)).unwrap_err().contains("longer"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_run_on(text in "[0-9a-z+*/^%()., e!-]{0,60}") {
            let _ = evaluate(&text);
        }

        #[test]
        fn sums_and_products_are_those_of_whole_numbers(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000) {
            prop_assert_eq!(value(&format!("{a} + {b}")), json!(a + b));
            prop_assert_eq!(value(&format!("({a}) - ({b})")), json!(a - b));
            prop_assert_eq!(value(&format!("{a} * {b}")), json!(a * b));
            if b != 0 {
                prop_assert_eq!(value(&format!("({a} // {b}) * {b} + {a} % {b}")), json!(a));
            }
        }
    }
}

//! YAML 1.2 core schema: what a plain scalar is.

use super::NodeKind;

/// What a plain scalar is under the core schema: null, a truth value, a number; `None` for a string.
/// `no`, `on` and `off` are strings.
pub(super) fn core_schema(plain: &str) -> Option<NodeKind> {
    match plain {
        "" | "~" | "null" | "Null" | "NULL" => return Some(NodeKind::Null),
        "true" | "True" | "TRUE" => return Some(NodeKind::Bool(true)),
        "false" | "False" | "FALSE" => return Some(NodeKind::Bool(false)),
        _ => {}
    }
    let digits = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    if let Some(octal) = plain.strip_prefix("0o") {
        return radix(octal, 8);
    }
    if let Some(hex) = plain.strip_prefix("0x") {
        return radix(hex, 16);
    }
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let whole = plain.strip_prefix('+').unwrap_or(plain);
        return whole.parse().map(NodeKind::Int).ok().or_else(|| plain.parse().map(NodeKind::Float).ok());
    }
    if matches!(digits, ".inf" | ".Inf" | ".INF") {
        return Some(NodeKind::Float(if plain.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }));
    }
    if matches!(plain, ".nan" | ".NaN" | ".NAN") {
        return Some(NodeKind::Float(f64::NAN));
    }
    if is_float(digits) { plain.parse().map(NodeKind::Float).ok() } else { None }
}

/// Digits of a base; beyond 64 bits they are a float, as other whole numbers are.
fn radix(digits: &str, base: u32) -> Option<NodeKind> {
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return None;
    }
    let wide = |sum: f64, digit: char| sum * f64::from(base) + f64::from(digit.to_digit(base).unwrap_or(0));
    Some(
        i64::from_str_radix(digits, base)
            .map_or_else(|_| NodeKind::Float(digits.chars().fold(0.0, wide)), NodeKind::Int),
    )
}

/// Whether an unsigned text is `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`.
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    exponent_fits && digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_schema_is_yaml_1_2() {
        for text in [
            "no", "on", "off", "yes", "y", "1_000", "1:30", "0b1", "-0x1", ".", "e5", "1e", "+", "1.2.3", "nan", "inf",
            "0o8",
        ] {
            assert_eq!(core_schema(text), None, "{text}");
        }
        for (text, value) in [("0", 0), ("-7", -7), ("+7", 7), ("007", 7), ("0o17", 15), ("0xfF", 255)] {
            assert_eq!(core_schema(text), Some(NodeKind::Int(value)), "{text}");
        }
        for (text, value) in
            [("1.10", 1.1), ("1e3", 1000.0), ("-.5", -0.5), ("5.", 5.0), ("99999999999999999999", 1e20)]
        {
            assert_eq!(core_schema(text), Some(NodeKind::Float(value)), "{text}");
        }
        assert_eq!(core_schema("True"), Some(NodeKind::Bool(true)));
        assert_eq!(core_schema("~"), Some(NodeKind::Null));
        assert!(matches!(core_schema(".nan"), Some(NodeKind::Float(value)) if value.is_nan()));
    }
}

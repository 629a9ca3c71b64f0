//! Expressions: read and calculated in one pass.

use num::bigint::BigInt;
use num::rational::BigRational;
use num::traits::{One, Pow, Zero};

use crate::diag::suggest;

use super::functions::{constant, function, names};
use super::{bounded, power};

/// The deepest nesting of parentheses, calls and signs.
const DEPTH_MAX: usize = 64;
/// The largest exponent of a number as written.
const EXPONENT_MAX: i64 = 3_000;

/// The number that the text of an expression stands for.
pub(super) fn evaluate(text: &str) -> Result<BigRational, String> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err("the expression is empty".to_owned());
    }
    let mut reader = Reader { tokens, next: 0, depth: 0 };
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(Token::Close) => Err("there is a `)` without `(`".to_owned()),
        Some(Token::Comma) => {
            Err("a `,` stands between the numbers of a function only; write thousands without it: 1000".to_owned())
        }
        Some(other) => Err(format!("expected an operator before `{}`", other.text())),
    }
}

/// The exact value of a decimal number such as `1_000.25e-3`.
pub(super) fn decimal(text: &str) -> Option<BigRational> {
    let text: String = text.chars().filter(|c| *c != '_').collect();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text.as_str(), 0),
    };
    if exponent.abs() > EXPONENT_MAX {
        return None;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: BigInt = format!("{whole}{fraction}").parse().ok()?;
    let shift = exponent - i64::try_from(fraction.len()).ok()?;
    let scale = Pow::pow(BigInt::from(10), shift.unsigned_abs());
    Some(if shift < 0 { BigRational::new(digits, scale) } else { BigRational::from_integer(digits * scale) })
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(BigRational, String),
    Name(String),
    Operator(&'static str),
    Open,
    Close,
    Comma,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Number(_, text) | Token::Name(text) => text,
            Token::Operator(text) => text,
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut found) = (0, Vec::new());
    while let Some(c) = chars.get(at).copied() {
        let next = chars.get(at + 1).copied();
        let (token, length) = match c {
            c if c.is_whitespace() => {
                at += 1;
                continue;
            }
            '0'..='9' | '.' => number(&chars[at..])?,
            c if c.is_alphabetic() => {
                let name: String = chars[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
                let length = name.chars().count();
                (Token::Name(if name == "π" { "pi".to_owned() } else { name.to_lowercase() }), length)
            }
            '*' if next == Some('*') => (Token::Operator("**"), 2),
            '/' if next == Some('/') => (Token::Operator("//"), 2),
            '+' => (Token::Operator("+"), 1),
            '-' | '−' => (Token::Operator("-"), 1),
            '*' | '×' | '·' => (Token::Operator("*"), 1),
            '/' | '÷' => (Token::Operator("/"), 1),
            '%' => (Token::Operator("%"), 1),
            '^' => (Token::Operator("**"), 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            other => return Err(format!("`{other}` is no part of an expression")),
        };
        found.push(token);
        at += length;
    }
    Ok(found)
}

fn number(chars: &[char]) -> Result<(Token, usize), String> {
    let digits = |from: usize| chars[from..].iter().take_while(|c| c.is_ascii_digit() || **c == '_').count();
    let mut length = digits(0);
    if chars.get(length) == Some(&'.') {
        length += 1 + digits(length + 1);
    }
    if matches!(chars.get(length), Some('e' | 'E')) {
        let sign = usize::from(matches!(chars.get(length + 1), Some('+' | '-')));
        let exponent =
            chars.get(length + 1 + sign..).map_or(0, |rest| rest.iter().take_while(|c| c.is_ascii_digit()).count());
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    let text: String = chars[..length].iter().collect();
    let value = decimal(&text).ok_or_else(|| match text.contains(['e', 'E']) {
        true => format!("the exponent of `{text}` is too large"),
        false => format!("`{text}` is no number"),
    })?;
    Ok((Token::Number(value, text), length))
}

struct Reader {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    /// Takes one of these operators, when it comes next.
    fn operator(&mut self, wanted: &[&str]) -> Option<&'static str> {
        match self.peek() {
            Some(Token::Operator(found)) if wanted.contains(found) => {
                let found = *found;
                self.next += 1;
                Some(found)
            }
            _ => None,
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Reader) -> Result<T, String>) -> Result<T, String> {
        if self.depth >= DEPTH_MAX {
            return Err(format!("the expression is nested deeper than {DEPTH_MAX} levels"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn sum(&mut self) -> Result<BigRational, String> {
        let mut value = self.product()?;
        while let Some(operator) = self.operator(&["+", "-"]) {
            let right = self.product()?;
            value = bounded(if operator == "+" { value + right } else { value - right })?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<BigRational, String> {
        let mut value = self.signed()?;
        while let Some(operator) = self.operator(&["*", "//", "/", "%"]) {
            let right = self.signed()?;
            if operator != "*" && right.is_zero() {
                return Err("division by zero".to_owned());
            }
            value = bounded(match operator {
                "*" => value * right,
                "/" => value / right,
                "//" => (value / right).floor(),
                _ => {
                    let times = (&value / &right).floor();
                    value - times * right
                }
            })?;
        }
        Ok(value)
    }

    /// A sign binds less than a power: `-2 ** 2` is -4.
    fn signed(&mut self) -> Result<BigRational, String> {
        match self.operator(&["-", "+"]) {
            Some("-") => self.deeper(Reader::signed).map(|value| -value),
            Some(_) => self.deeper(Reader::signed),
            None => self.powered(),
        }
    }

    /// Powers are taken from the right: `2 ** 3 ** 2` is `2 ** 9`.
    fn powered(&mut self) -> Result<BigRational, String> {
        let base = self.atom()?;
        match self.operator(&["**"]) {
            Some(_) => power(&base, &self.deeper(Reader::signed)?),
            None => Ok(base),
        }
    }

    fn atom(&mut self) -> Result<BigRational, String> {
        let before = self.next.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|token| token.text().to_owned());
        let Some(token) = self.peek().cloned() else {
            return Err(match before {
                Some(before) => format!("expected a number after `{before}`, where the expression ends"),
                None => "the expression is empty".to_owned(),
            });
        };
        self.next += 1;
        match token {
            Token::Number(value, _) => Ok(value),
            Token::Open => {
                let value = self.deeper(Reader::sum)?;
                self.close()?;
                Ok(value)
            }
            Token::Name(name) => self.named(&name),
            other => {
                let after = before.map(|before| format!(" after `{before}`")).unwrap_or_default();
                Err(format!("expected a number{after}, found `{}`", other.text()))
            }
        }
    }

    fn close(&mut self) -> Result<(), String> {
        match self.peek() {
            Some(Token::Close) => {
                self.next += 1;
                Ok(())
            }
            Some(Token::Comma) => {
                Err("a `,` stands between the numbers of a function only; write thousands without it".to_owned())
            }
            Some(other) => Err(format!("expected an operator or `)` before `{}`", other.text())),
            None => Err("a `(` is not closed".to_owned()),
        }
    }

    fn named(&mut self, name: &str) -> Result<BigRational, String> {
        let is_call = self.peek() == Some(&Token::Open);
        if let (Some(value), false) = (constant(name), is_call) {
            return Ok(value);
        }
        let Some(function) = function(name) else {
            let what = if is_call { "function" } else { "constant" };
            let near = suggest::near_or_all(name, names(), "what there is");
            return Err(format!("there is no {what} `{name}`; {near}"));
        };
        if !is_call {
            return Err(format!("`{name}` is a function: write `{name}(…)`"));
        }
        self.next += 1;
        let mut numbers = Vec::new();
        if self.peek() != Some(&Token::Close) {
            loop {
                numbers.push(self.deeper(Reader::sum)?);
                if self.peek() != Some(&Token::Comma) {
                    break;
                }
                self.next += 1;
            }
        }
        self.close()?;
        bounded(function.apply(&numbers)?)
    }
}

/// Ten to a power.
pub(super) fn ten_to(exponent: i64) -> BigRational {
    let scale = BigRational::from_integer(Pow::pow(BigInt::from(10), exponent.unsigned_abs()));
    if exponent < 0 { BigRational::one() / scale } else { scale }
}

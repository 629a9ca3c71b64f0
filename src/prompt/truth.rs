//! Three-valued truth of conditions (language.md 5): `and`, `or` and `not` follow Kleene.

use super::ast::Span;
use minijinja::machinery::{self, Token};

/// The truth of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// An object it mentions is missing, or a condition it names is unknown.
    Unknown,
}

impl Truth {
    /// Kleene's `and`.
    pub fn and(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::False, _) | (_, Truth::False) => Truth::False,
            (Truth::True, Truth::True) => Truth::True,
            _ => Truth::Unknown,
        }
    }

    /// Kleene's `or`.
    pub fn or(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::True, _) | (_, Truth::True) => Truth::True,
            (Truth::False, Truth::False) => Truth::False,
            _ => Truth::Unknown,
        }
    }
}

/// Kleene's `not`.
impl std::ops::Not for Truth {
    type Output = Truth;

    fn not(self) -> Truth {
        match self {
            Truth::True => Truth::False,
            Truth::False => Truth::True,
            Truth::Unknown => Truth::Unknown,
        }
    }
}

impl From<bool> for Truth {
    fn from(value: bool) -> Truth {
        if value { Truth::True } else { Truth::False }
    }
}

/// An expr as `and`, `or` and `not` over leaves.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kleene<L> {
    /// All hold.
    And(Vec<Kleene<L>>),
    /// One holds.
    Or(Vec<Kleene<L>>),
    /// It does not hold.
    Not(Box<Kleene<L>>),
    /// Anything else.
    Leaf(L),
}

/// Splits an expr that parses; leaves are ranges of the text, without parentheses around them.
pub(super) fn split(text: &str) -> Kleene<Span> {
    match tokens(text) {
        Some(tokens) if !tokens.is_empty() => node(&tokens),
        _ => Kleene::Leaf(0..text.len()),
    }
}

/// Strips `not` and parentheses: whether the rest must hold, and where it is.
pub(super) fn polarity(text: &str) -> (bool, Span) {
    let all = tokens(text).unwrap_or_default();
    let mut rest = all.as_slice();
    let mut holds = true;
    loop {
        let joined = top_level(rest).any(|(_, word)| matches!(word, Word::And | Word::Or | Word::If | Word::Comma));
        match rest {
            [(Word::Not, _), tail @ ..] if !joined && !tail.is_empty() => {
                holds = !holds;
                rest = tail;
            }
            [(Word::ParenOpen, _), inner @ .., _] if !inner.is_empty() && closes_last(rest) => {
                if top_level(inner).any(|(_, word)| word == Word::Comma) {
                    break;
                }
                rest = inner;
            }
            _ => break,
        }
    }
    match (rest.first(), rest.last()) {
        (Some(first), Some(last)) => (holds, first.1.start..last.1.end),
        _ => (true, 0..text.len()),
    }
}

fn tokens(text: &str) -> Option<Vec<(Word, Span)>> {
    let mut tokens = Vec::new();
    for token in machinery::tokenize(text, true, super::ast::syntax_config()) {
        let (token, span) = token.ok()?;
        let word = match token {
            Token::Ident("and") => Word::And,
            Token::Ident("or") => Word::Or,
            Token::Ident("not") => Word::Not,
            Token::Ident("if") => Word::If,
            Token::Dot => Word::Dot,
            Token::ParenOpen => Word::ParenOpen,
            Token::BracketOpen | Token::BraceOpen => Word::Open,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => Word::Close,
            Token::Comma => Word::Comma,
            _ => Word::Other,
        };
        // After a dot, a word of the language is an attribute.
        let after_dot = matches!(tokens.last(), Some((Word::Dot, _)));
        let word = if after_dot { Word::Other } else { word };
        tokens.push((word, span.start_offset as usize..span.end_offset as usize));
    }
    Some(tokens)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    And,
    Or,
    Not,
    If,
    Dot,
    ParenOpen,
    Open,
    Close,
    Comma,
    Other,
}

type Tokens<'t> = &'t [(Word, Span)];

fn node(tokens: Tokens<'_>) -> Kleene<Span> {
    let leaf = || match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => Kleene::Leaf(first.1.start..last.1.end),
        _ => Kleene::Leaf(0..0),
    };
    if tokens.is_empty() || top_level(tokens).any(|(_, word)| word == Word::If) {
        return leaf();
    }
    for (word, join) in [(Word::Or, Kleene::Or as fn(_) -> _), (Word::And, Kleene::And as fn(_) -> _)] {
        let cuts: Vec<usize> = top_level(tokens).filter(|(_, found)| *found == word).map(|(at, _)| at).collect();
        if !cuts.is_empty() {
            let mut parts = Vec::new();
            let mut from = 0;
            for at in cuts.into_iter().chain([tokens.len()]) {
                parts.push(node(&tokens[from..at]));
                from = at + 1;
            }
            return join(parts);
        }
    }
    if tokens[0].0 == Word::Not {
        return Kleene::Not(Box::new(node(&tokens[1..])));
    }
    if tokens[0].0 == Word::ParenOpen && closes_last(tokens) {
        let inner = &tokens[1..tokens.len() - 1];
        if !top_level(inner).any(|(_, word)| word == Word::Comma) && !inner.is_empty() {
            return node(inner);
        }
    }
    leaf()
}

/// The words that are in no bracket.
fn top_level(tokens: Tokens<'_>) -> impl Iterator<Item = (usize, Word)> {
    let mut depth = 0_usize;
    tokens.iter().enumerate().filter_map(move |(at, (word, _))| {
        match word {
            Word::ParenOpen | Word::Open => depth += 1,
            Word::Close => depth = depth.saturating_sub(1),
            _ if depth == 0 => return Some((at, *word)),
            _ => {}
        }
        None
    })
}

/// Whether the bracket that opens first closes last.
fn closes_last(tokens: Tokens<'_>) -> bool {
    let mut depth = 0_usize;
    for (at, (word, _)) in tokens.iter().enumerate() {
        match word {
            Word::ParenOpen | Word::Open => depth += 1,
            Word::Close => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1 == tokens.len();
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Truth; 3] = [Truth::True, Truth::False, Truth::Unknown];

    #[test]
    fn tables_are_kleenes() {
        for a in ALL {
            assert_eq!(!!a, a);
            for b in ALL {
                assert_eq!(a.and(b), b.and(a));
                assert_eq!(a.or(b), !(!a).and(!b), "De Morgan");
            }
            assert_eq!(a.and(Truth::True), a);
            assert_eq!(a.and(Truth::False), Truth::False);
            assert_eq!(a.or(Truth::False), a);
            assert_eq!(a.or(Truth::True), Truth::True);
        }
        assert_eq!(Truth::Unknown.and(Truth::Unknown), Truth::Unknown);
        assert_eq!(Truth::Unknown.or(Truth::Unknown), Truth::Unknown);
        assert_eq!(!Truth::True, Truth::False);
    }

    fn shown(text: &str) -> String {
        fn show(text: &str, node: &Kleene<Span>) -> String {
            let all = |parts: &[Kleene<Span>]| parts.iter().map(|part| show(text, part)).collect::<Vec<_>>();
            match node {
                Kleene::And(parts) => format!("({})", all(parts).join(" & ")),
                Kleene::Or(parts) => format!("({})", all(parts).join(" | ")),
                Kleene::Not(inner) => format!("!{}", show(text, inner)),
                Kleene::Leaf(span) => format!("[{}]", &text[span.clone()]),
            }
        }
        show(text, &split(text))
    }

    #[test]
    fn exprs_are_split_at_their_own_operators_only() {
        assert_eq!(shown("a and b or not c"), "(([a] & [b]) | ![c])");
        assert_eq!(shown("not (a or b > 1) and (c)"), "(!([a] | [b > 1]) & [c])");
        assert_eq!(shown("a not in b and c is not none"), "([a not in b] & [c is not none])");
        assert_eq!(shown("(a + b) * (c) > 1"), "[(a + b) * (c) > 1]");
        assert_eq!(shown("f(a and b) or x['and']"), "([f(a and b)] | [x['and']])");
        assert_eq!(shown("a if b and c else d"), "[a if b and c else d]");
        assert_eq!(shown("x.and and (a, b)"), "([x.and] & [(a, b)])");
        assert_eq!(shown("not not a"), "!![a]");
        assert_eq!(shown("((a))"), "[a]");
    }
}

//! Syntax errors of templates and exprs: their place, and the cure that mistakes of this kind have.

use super::ast::{Span, syntax_config};
use minijinja::machinery::{self, Token};

/// The deepest nesting of operators and postfixes in one expression; deeper ones would exhaust the stack.
const DEPTH_MAX: usize = 250;
/// The longest chain of `elif`.
const ELIF_MAX: usize = 100;

/// A text that is not a template or expr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxFault {
    /// `template-syntax` or `expr-syntax`.
    pub code: &'static str,
    /// Where, in the text.
    pub range: Span,
    /// What is wrong, in one line.
    pub message: String,
    /// Cures, most likely first.
    pub help: Vec<String>,
    /// What certainly belongs at `range` instead.
    pub fix: Option<String>,
    /// Other places in the text that matter.
    pub related: Box<[(Span, String)]>,
}

impl SyntaxFault {
    fn new(text: &str, range: Span, message: impl Into<String>, in_expr: bool) -> SyntaxFault {
        let code = if in_expr { "expr-syntax" } else { "template-syntax" };
        let range = clamp(text, range);
        SyntaxFault { code, range, message: message.into(), help: Vec::new(), fix: None, related: Box::default() }
    }

    fn help(mut self, help: impl Into<String>) -> SyntaxFault {
        self.help.push(help.into());
        self
    }

    fn fix(mut self, fix: &str) -> SyntaxFault {
        self.fix = Some(fix.to_owned());
        self
    }
}

/// The nearest range that lies in the text, on character boundaries.
fn clamp(text: &str, range: Span) -> Span {
    let mut end = range.end.min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let mut start = range.start.min(end);
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    start..end
}

/// Refuses what would exhaust the stack in the parser, the compiler or a walk over the tree.
///
/// # Errors
/// The place where the limit was passed. Texts with other mistakes pass; the parser reports those.
pub(super) fn check_depth(text: &str, in_expr: bool) -> Result<(), SyntaxFault> {
    // A level takes an operator, a bracket, or a keyword and what parts it from the next one; an `elif` takes four
    // braces. So a text with few signs beside its letters is not too deep, whatever it says, and need not be read twice.
    let signs = text.bytes().filter(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').count();
    if signs < DEPTH_MAX.min(4 * ELIF_MAX) {
        return Ok(());
    }
    let mut levels: Vec<usize> = vec![0];
    let mut chains: Vec<usize> = Vec::new();
    let mut at_keyword = false;
    for token in machinery::tokenize(text, in_expr, syntax_config()) {
        let Ok((token, span)) = token else { return Ok(()) };
        let keyword = std::mem::take(&mut at_keyword);
        match token {
            Token::BlockStart => {
                levels = vec![0];
                at_keyword = true;
            }
            Token::VariableStart => levels = vec![0],
            Token::TemplateData(_)
            | Token::VariableEnd
            | Token::BlockEnd
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_)
            | Token::Colon
            | Token::Assign => {}
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                let depth = levels.last().copied().unwrap_or(0);
                levels.push(depth + 1);
            }
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                levels.pop();
                if let Some(last) = levels.last_mut() {
                    *last += 1;
                }
            }
            Token::Comma => {
                let below = levels.len().checked_sub(2).and_then(|at| levels.get(at)).copied().unwrap_or(0);
                if let Some(last) = levels.last_mut() {
                    *last = below + 1;
                }
            }
            Token::Ident(name) => {
                match name {
                    "if" if keyword => chains.push(0),
                    "endif" if keyword => drop(chains.pop()),
                    "elif" if keyword => {
                        if let Some(chain) = chains.last_mut() {
                            *chain += 1;
                        }
                    }
                    _ => {}
                }
                if !keyword && matches!(name, "and" | "or" | "not" | "is" | "in" | "if" | "else") {
                    levels.iter_mut().last().into_iter().for_each(|last| *last += 1);
                }
            }
            _ => levels.iter_mut().last().into_iter().for_each(|last| *last += 1),
        }
        let range = span.start_offset as usize..span.end_offset as usize;
        if levels.last().is_some_and(|depth| *depth > DEPTH_MAX) {
            let message = format!("the expression has more than {DEPTH_MAX} operators within one another");
            return Err(SyntaxFault::new(text, range, message, in_expr).help("compute parts of it with `{% set … %}`"));
        }
        if chains.last().is_some_and(|chain| *chain > ELIF_MAX) {
            let message = format!("more than {ELIF_MAX} `elif` in one `if`");
            return Err(SyntaxFault::new(text, range, message, in_expr).help("use a map: `{\"a\": 1}[key]`"));
        }
    }
    Ok(())
}

/// A `cycle()` that has nothing to go through.
pub(super) fn empty_cycle(text: &str, range: Span) -> SyntaxFault {
    SyntaxFault::new(text, range, "`cycle` wants at least one value", false)
        .help("give the values: `loop.cycle(\"odd\", \"even\")`")
}

/// An `import … as` something that is not a name.
pub(super) fn import_target(text: &str, range: Span) -> SyntaxFault {
    SyntaxFault::new(text, range, "an imported file is given a name", false)
        .help("write `{% import \"file.jinja\" as name %}`")
}

/// What minijinja says of a text, as a fault with its likely cure.
pub(super) fn fault(text: &str, error: &minijinja::Error, in_expr: bool) -> SyntaxFault {
    let range = error.range().unwrap_or(0..text.len());
    let detail = error.detail().unwrap_or("the text could not be parsed");
    known_trap(text, &clamp(text, range.clone()), in_expr)
        .or_else(|| unclosed_delimiter(text, in_expr))
        .or_else(|| block_mistake(text, detail, &range, in_expr))
        .unwrap_or_else(|| plain(text, detail, range, in_expr))
}

/// Operators and words of other languages that stand where the parser stopped.
fn known_trap(text: &str, range: &Span, in_expr: bool) -> Option<SyntaxFault> {
    const TRAPS: &[(&str, &str)] = &[
        ("&&", "and"),
        ("||", "or"),
        ("===", "=="),
        ("!==", "!="),
        ("??", "| default(…)"),
        ("<>", "!="),
        ("++", ""),
        ("=>", ">="),
        ("=<", "<="),
    ];
    // The parser stops at the second half of some of these.
    let from = range.start.saturating_sub(2);
    let mut best: Option<(usize, &str, &str)> = None;
    for (wrong, right) in TRAPS {
        let window_start = (from..=range.start).find(|at| text.is_char_boundary(*at))?;
        let mut window_end = (range.start + wrong.len() + 1).min(text.len());
        while !text.is_char_boundary(window_end) {
            window_end += 1;
        }
        if let Some(at) = text[window_start..window_end].find(wrong) {
            let at = window_start + at;
            if best.is_none_or(|(_, seen, _)| wrong.len() > seen.len()) {
                best = Some((at, wrong, right));
            }
        }
    }
    if let Some((at, wrong, right)) = best
        && !right.is_empty()
    {
        let fault = SyntaxFault::new(text, at..at + wrong.len(), format!("`{wrong}` is not an operator here"), in_expr)
            .help(format!("write `{right}`"));
        let certain = !right.contains('…');
        return Some(if certain { fault.fix(right) } else { fault });
    }
    let rest = text.get(range.start..)?;
    let before = text.get(..range.start)?.trim_end();
    if rest.starts_with('!') && !rest.starts_with("!=") {
        let fault = SyntaxFault::new(text, range.start..range.start + 1, "`!` is not an operator here", in_expr);
        return Some(fault.help("write `not`").fix("not "));
    }
    if rest.starts_with('?') {
        let fault = SyntaxFault::new(text, range.start..range.start + 1, "`?` is not an operator here", in_expr);
        return Some(fault.help("write `a if condition else b`, or `x.y | default(…)` for what may be absent"));
    }
    if rest.starts_with('$') {
        let fault = SyntaxFault::new(text, range.start..range.start + 1, "variables have no `$`", in_expr);
        return Some(fault.help("write the name alone").fix(""));
    }
    if rest.starts_with('=') && !rest.starts_with("==") && !before.ends_with(['=', '!', '<', '>']) {
        let fault = SyntaxFault::new(text, range.start..range.start + 1, "`=` does not compare", in_expr);
        return Some(fault.help("write `==`").fix("=="));
    }
    if in_expr && (rest.starts_with("{{") || (rest.starts_with('{') && before.ends_with('{'))) {
        let at = if rest.starts_with("{{") { range.start } else { before.len() - 1 };
        let fault = SyntaxFault::new(text, at..at + 2, "an expr is written without braces", in_expr);
        return Some(fault.help("leave out `{{` and `}}`"));
    }
    None
}

/// A `{{`, `{%` or `{#` that is not closed before the next one or the end.
fn unclosed_delimiter(text: &str, in_expr: bool) -> Option<SyntaxFault> {
    if in_expr {
        let trimmed = text.trim_start();
        if trimmed.starts_with("{{") {
            let at = text.len() - trimmed.len();
            let fault = SyntaxFault::new(text, at..at + 2, "an expr is written without braces", true);
            return Some(fault.help("leave out `{{` and `}}`"));
        }
        return None;
    }
    let mut at = 0;
    while let Some(open) = next_tag(text, at) {
        let kind = text.as_bytes().get(open + 1).copied().unwrap_or(b'{');
        let (opening, close) = match kind {
            b'%' => ("{%", "%}"),
            b'#' => ("{#", "#}"),
            _ => ("{{", "}}"),
        };
        let Some(end) = find_close(&text[open + 2..], close, kind == b'#') else {
            let line_end = text[open..].find('\n').map_or(text.len(), |line| open + line);
            let line = &text[open..line_end];
            // Up to a lone `}`, else to the next tag or the end of the line.
            let rest = line.get(2..).unwrap_or_default();
            let lone = rest.find('}').map(|at| at + 1);
            let next = rest.find("{{").into_iter().chain(rest.find("{%")).min();
            let end = 2 + lone.into_iter().chain(next).min().unwrap_or(rest.trim_end().len());
            let range = open..open + end;
            let message = format!("`{opening}` is not closed");
            return Some(SyntaxFault::new(text, range, message, false).help(format!("add `{close}`")));
        };
        at = open + 2 + end + 2;
        if opening == "{%" && is_tag(&text[open + 2..at - 2], "raw") {
            let Some(raw_end) = text[at..].find("endraw") else {
                let fault = SyntaxFault::new(text, open..at, "`{% raw %}` is not closed", false);
                return Some(fault.help("add `{% endraw %}`"));
            };
            at += raw_end + text[at + raw_end..].find("%}").map_or(0, |end| end + 2);
        }
    }
    None
}

/// Where the next `{{`, `{%` or `{#` opens; one walk over the text however often it is asked.
fn next_tag(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    (from..bytes.len()).find(|at| bytes[*at] == b'{' && matches!(bytes.get(at + 1), Some(b'{' | b'%' | b'#')))
}

fn is_tag(inner: &str, name: &str) -> bool {
    inner.trim_matches(['-', '+']).trim() == name
}

/// Where the closing delimiter is: outside strings, before another tag opens.
fn find_close(rest: &str, close: &str, in_comment: bool) -> Option<usize> {
    let bytes = rest.as_bytes();
    let mut quote: Option<u8> = None;
    let mut depth = 0_i32;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if in_comment {
            if bytes[at..].starts_with(close.as_bytes()) {
                return Some(at);
            }
        } else if let Some(open) = quote {
            match byte {
                b'\\' => at += 1,
                _ if byte == open => quote = None,
                _ => {}
            }
        } else {
            if depth <= 0 && bytes[at..].starts_with(close.as_bytes()) {
                return Some(at);
            }
            match byte {
                b'"' | b'\'' => quote = Some(byte),
                b'{' if matches!(bytes.get(at + 1), Some(b'{' | b'%' | b'#')) => return None,
                b'{' | b'(' | b'[' => depth += 1,
                b'}' | b')' | b']' => depth -= 1,
                _ => {}
            }
        }
        at += 1;
    }
    None
}

/// Blocks that are not closed, closed twice or closed with the wrong word; unknown statements.
fn block_mistake(text: &str, detail: &str, range: &Span, in_expr: bool) -> Option<SyntaxFault> {
    if in_expr {
        return None;
    }
    const BLOCKS: &[&str] = &["for", "if", "with", "set", "autoescape", "filter", "block", "macro", "call"];
    const OTHERS: &[&str] = &["extends", "include", "import", "from", "do", "continue", "break", "raw", "else", "elif"];
    let mut open: Vec<(String, Span)> = Vec::new();
    for tag in tags(text) {
        let word = text[tag.word.clone()].to_owned();
        let closes = word.strip_prefix("end").filter(|name| BLOCKS.contains(name));
        if let Some(name) = closes {
            match open.pop() {
                Some((opened, _)) if opened == name => {}
                Some((opened, place)) => {
                    let message = format!("`{word}` closes `{opened}`");
                    let mut fault = SyntaxFault::new(text, tag.word, message, false)
                        .help(format!("write `{{% end{opened} %}}`, or close the inner block first"));
                    fault.related = Box::new([(place, format!("the `{opened}` that is open here"))]);
                    return Some(fault);
                }
                None => {
                    let fault = SyntaxFault::new(text, tag.word, format!("`{word}` closes nothing"), false);
                    return Some(fault.help(format!("remove it, or open `{{% {name} … %}}` before it")));
                }
            }
        } else if BLOCKS.contains(&word.as_str()) {
            // `{% set x = 1 %}` opens nothing.
            if word != "set" || !text[tag.inner.clone()].contains('=') {
                open.push((word, tag.inner));
            }
        } else if !OTHERS.contains(&word.as_str()) && !word.is_empty() {
            let ends = BLOCKS.iter().map(|name| format!("end{name}")).collect::<Vec<_>>();
            let known = BLOCKS.iter().chain(OTHERS).copied().chain(ends.iter().map(String::as_str));
            let mut fault = SyntaxFault::new(text, tag.word, format!("there is no statement `{word}`"), false);
            let expected = match word.as_str() {
                "elseif" | "elsif" => Some("elif".to_owned()),
                "end" | "fi" | "done" => open.last().map(|(name, _)| format!("end{name}")),
                _ => None,
            };
            if let Some(expected) = expected {
                return Some(fault.help(format!("write `{expected}`")).fix(&expected));
            }
            fault.help.extend(crate::diag::suggest::did_you_mean(&word, known));
            return Some(fault);
        }
    }
    let (name, place) = open.pop()?;
    if detail.contains("end of input") || range.end >= text.trim_end().len() {
        let fault = SyntaxFault::new(text, place, format!("`{name}` is not closed"), false);
        return Some(fault.help(format!("add `{{% end{name} %}}`")));
    }
    None
}

struct Tag {
    word: Span,
    inner: Span,
}

/// The statements of a template: their keyword, and all that is in the braces.
fn tags(text: &str) -> Vec<Tag> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find("{%") {
        let start = at + open + 2;
        let Some(end) = find_close(&text[start..], "%}", false) else { break };
        let inner = &text[start..start + end];
        let lead = inner.len() - inner.trim_start_matches(['-', '+']).trim_start().len();
        let word =
            inner[lead..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').map(char::len_utf8).sum::<usize>();
        found.push(Tag { word: start + lead..start + lead + word, inner: start - 2..start + end + 2 });
        at = start + end + 2;
        if inner.get(lead..lead + word) == Some("raw") {
            at += text[at..].find("endraw").map_or(text.len() - at, |end| end + 6);
        }
    }
    found
}

/// minijinja's own words, with the place made sensible.
fn plain(text: &str, detail: &str, range: Span, in_expr: bool) -> SyntaxFault {
    let at_end = detail.contains("end of input");
    let range = if at_end { text.trim_end().len()..text.trim_end().len() } else { range };
    let mut fault = SyntaxFault::new(text, range, detail.to_owned(), in_expr);
    if detail.contains("unexpected end of string") {
        fault.help.push("close the string with the same quote it began with".to_owned());
    } else if in_expr && text.trim().is_empty() {
        fault.message = "the expr is empty".to_owned();
    } else if detail.contains("unexpected input after expression") {
        fault.help.push("an operator is missing before this: `and`, `or`, `==`, `~` …".to_owned());
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::super::ast::{parse_expr, parse_template};

    fn template(text: &str) -> (String, String, Vec<String>) {
        let fault = parse_template(text).unwrap_err();
        (text[fault.range.clone()].to_owned(), fault.message, fault.help)
    }

    fn expr(text: &str) -> (String, Option<String>) {
        let fault = parse_expr(text).unwrap_err();
        (text[fault.range.clone()].to_owned(), fault.fix)
    }

    #[test]
    fn unclosed_tags_are_shown_where_they_open() {
        assert_eq!(template("a {{ x }\nb {{ y }}").0, "{{ x }");
        assert_eq!(template("a {{ x }\nb {{ y }}").2, ["add `}}`"]);
        assert_eq!(template("{% if x }y{% endif %}").0, "{% if x }");
        assert_eq!(template("{% for x in y %}\n{{ x }}\n").0, "{% for x in y %}");
        assert_eq!(template("{% for x in y %}\n{{ x }}\n").2, ["add `{% endfor %}`"]);
        assert_eq!(template("{% if x %}{% endfor %}{% endif %}").0, "endfor");
        assert_eq!(template("{% if x %}a{% elseif y %}b{% endif %}").2, ["write `elif`"]);
        assert_eq!(template("{% includ 'x' %}").2, ["did you mean `include`?"]);
        assert_eq!(template("{# x").0, "{# x");
    }

    #[test]
    fn operators_of_other_languages_are_replaced() {
        let cures = |text: &str| {
            let (at, fix) = expr(text);
            format!("{at} -> {}", fix.unwrap_or_default().trim_end())
        };
        assert_eq!(cures("a && b"), "&& -> and");
        assert_eq!(cures("a || b"), "|| -> or");
        assert_eq!(cures("!a"), "! -> not");
        assert_eq!(cures("a and !b"), "! -> not");
        assert_eq!(cures("a === b"), "=== -> ==");
        assert_eq!(cures("a !== b"), "!== -> !=");
        assert_eq!(cures("a = b"), "= -> ==");
        assert_eq!(cures("$a"), "$ -> ");
        assert_eq!(expr("{{ a }}").0, "{{");
        assert_eq!(expr("a ? b : c").0, "?");
        assert_eq!(expr("a b").0, "b");
        assert_eq!(expr("").0, "");
    }

    #[test]
    fn a_long_text_with_a_fault_is_explained_in_time_linear_in_its_length() {
        let text = format!("{}{}", "{% if true %}".repeat(60_000), "{% endif %}".repeat(60_000));
        let start = std::time::Instant::now();
        assert!(template(&text).1.contains("recursion"), "{:?}", template(&text).1);
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }

    #[test]
    fn depth_is_bounded() {
        for text in ["(".repeat(5000), "not ".repeat(3000) + "x", vec!["1"; 4000].join("+"), "-".repeat(4000) + "1"] {
            assert!(parse_expr(&text).is_err());
            assert!(parse_template(&format!("{{{{ {text} }}}}")).is_err());
        }
        assert!(parse_expr(&format!("x{}", ".a".repeat(3000))).is_err());
        assert!(parse_expr(&format!("x{}", "|abs".repeat(3000))).is_err());
        assert!(parse_expr(&format!("[{}]", vec!["a.b + 1"; 3000].join(","))).is_ok());
        assert!(parse_template(&format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(500))).is_err());
        assert!(parse_template(&"{% if a %}".repeat(5000)).is_err());
    }
}

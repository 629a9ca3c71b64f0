//! Names: which form they have, and which are taken by the language (language.md 1).

use crate::decl::{Name, ReadCx};
use crate::diag::Diagnostic;
use crate::value::snake_case;

use super::super::agent::AgentCx;

/// Words of the language, which no input, binding, loop variable, state's field or condition may have as its name.
pub(crate) const RESERVED: &[&str] =
    &["self", "config", "process", "inputs", "result", "results", "attempts", "feedback", "response", "loop"];

/// Words of exprs, which no variable can have as its name.
const OPERATORS: &[&str] = &["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "null"];

/// Forms of names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `PascalCase`.
    Pascal,
    /// `snake_case`.
    Snake,
    /// `snake_case`, or with `-`.
    Kebab,
    /// `[A-Za-z0-9_-]{1,64}`.
    Tool,
}

impl Form {
    fn fits(self, name: &str) -> bool {
        let starts = |test: fn(char) -> bool| name.starts_with(test);
        let all = |test: fn(char) -> bool| name.chars().all(test);
        match self {
            Form::Pascal => starts(|c| c.is_ascii_uppercase()) && all(|c| c.is_ascii_alphanumeric()),
            Form::Snake => {
                starts(|c| c.is_ascii_lowercase()) && all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            }
            Form::Kebab => {
                starts(|c| c.is_ascii_lowercase())
                    && all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
            }
            Form::Tool => (1..=64).contains(&name.len()) && all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Form::Pascal => "`PascalCase`: a capital letter, then letters and digits",
            Form::Snake => "`snake_case`: small letters, digits and `_`",
            Form::Kebab => "small letters, digits, `_` and `-`",
            Form::Tool => "1 to 64 of the letters, digits, `_` and `-`",
        }
    }

    /// The name in this form, where one can be made of it.
    fn of(self, name: &str) -> Option<String> {
        let made = match self {
            Form::Pascal => {
                let parts = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
                parts.map(capitalised).collect::<String>()
            }
            Form::Snake => snake_case(&name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_")),
            Form::Kebab => {
                let parted = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-', "-");
                snake_case(&parted).replace("-_", "-")
            }
            Form::Tool => name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_"),
        };
        (self.fits(&made) && made != name).then_some(made)
    }
}

fn capitalised(part: &str) -> String {
    let mut chars = part.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

fn check_form(name: &Name, what: &str, form: Form, findings: &mut Vec<Diagnostic>) {
    if form.fits(&name.value) {
        return;
    }
    let mut diagnostic = Diagnostic::error(
        "bad-name",
        name.span,
        format!("`{}` cannot be the name of {what}; expected {}", name.value, form.words()),
    );
    if let Some(made) = form.of(&name.value) {
        diagnostic = diagnostic.help(format!("write `{made}`"));
    }
    findings.push(diagnostic);
}

/// Checks the name of a variable: an input, a binding, a condition, a state's field.
pub(crate) fn check_variable(name: &Name, what: &str, findings: &mut Vec<Diagnostic>) {
    check_form(name, what, Form::Snake, findings);
    if RESERVED.contains(&name.value.as_str()) || OPERATORS.contains(&name.value.as_str()) {
        findings.push(
            Diagnostic::error(
                "reserved-name",
                name.span,
                format!("`{}` is a word of the language, so {what} cannot have it as its name", name.value),
            )
            .help(format!("choose another name, such as `{}_value`", name.value)),
        );
    }
}

/// Checks the name of a tool.
pub(crate) fn check_tool(name: &Name, findings: &mut Vec<Diagnostic>) {
    check_form(name, "a tool", Form::Tool, findings);
}

/// Checks every name that an agent sees.
pub(super) fn check(cx: &mut AgentCx<'_>) {
    let visible = &cx.heads.visible;
    let mut found = ReadCx::default().diagnostics;
    if let Some(agent) = &cx.heads.own.agent {
        check_form(agent, "an agent", Form::Kebab, &mut found);
    }
    for decl in visible.types.values().chain(visible.states.values()) {
        check_form(decl.name, "a type", Form::Pascal, &mut found);
    }
    for decl in visible.conditions.values() {
        check_variable(decl.name, "a condition", &mut found);
    }
    for decl in visible.states.values() {
        if let crate::decl::types::TypeDeclKind::Object(object) = &decl.decl.kind {
            object.fields.iter().for_each(|field| check_variable(&field.name, "a state's field", &mut found));
        }
    }
    for action in &cx.heads.actions {
        check_form(action.name, "an action", Form::Snake, &mut found);
    }
    let snake = [
        (names(&visible.goals), "a goal"),
        (names(&visible.personas), "a persona"),
        (names(&visible.references), "a reference"),
        (names(&visible.guardrails), "a guardrail"),
        (names(&visible.config), "a config value"),
    ];
    for (names, what) in snake {
        names.into_iter().for_each(|name| check_form(name, what, Form::Snake, &mut found));
    }
    names(&visible.tool_groups).into_iter().for_each(|name| check_form(name, "a tool group", Form::Kebab, &mut found));
    names(&visible.roles).into_iter().for_each(|name| check_form(name, "a role", Form::Kebab, &mut found));
    names(&visible.tools).into_iter().for_each(|name| check_form(name, "a tool", Form::Tool, &mut found));
    // A key that is no string was reported as that.
    found.retain(|finding| finding.span.is_none_or(|span| !cx.is_read_error(span)));
    cx.strings.findings.append(&mut found);
}

fn names<'a, T>(names: &super::super::visible::Names<'a, T>) -> Vec<&'a Name> {
    names.values().map(|decl| decl.name).collect()
}

/// Whether a finding is about a name that a file which could not be imported may declare.
pub(crate) fn may_be_imported(found: &Diagnostic) -> bool {
    const CODES: &[&str] = &[
        "unknown-type",
        "unknown-condition",
        "unknown-tool",
        "unknown-group",
        "unknown-persona",
        "unknown-reference",
        "unknown-guardrail",
        "unknown-role",
        "unknown-variable",
        "unknown-action",
        "no-goal",
        "unreachable-goal",
        "dead-action",
    ];
    CODES.contains(&found.code) && !found.help.iter().any(|help| help.starts_with("did you mean"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_their_cures() {
        assert!(Form::Pascal.fits("HTTPRequest2") && !Form::Pascal.fits("star_person") && !Form::Pascal.fits("A_b"));
        assert_eq!(Form::Pascal.of("star_person").as_deref(), Some("StarPerson"));
        assert_eq!(Form::Snake.of("findNews").as_deref(), Some("find_news"));
        assert_eq!(Form::Snake.of("find-news").as_deref(), Some("find_news"));
        assert!(Form::Kebab.fits("star-news") && Form::Tool.fits("A-b_c") && !Form::Tool.fits(""));
        assert_eq!(Form::Kebab.of("Star News").as_deref(), Some("star-news"));
        assert_eq!(Form::Snake.of("1"), None);
    }
}

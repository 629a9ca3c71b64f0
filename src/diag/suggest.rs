//! The one did-you-mean function, for keys, kinds, types, tools, templates, variables.

/// How many names a suggestion offers at most.
const SUGGESTIONS_MAX: usize = 3;

/// The candidates that `name` was probably meant to be, best first, at most three. Case, `-` against `_` and a plural
/// `s` count little; ties keep the order of the candidates.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = normal(name);
    let mut scored: Vec<(f64, &str)> = Vec::new();
    for candidate in candidates {
        if candidate == name || scored.iter().any(|(_, seen)| *seen == candidate) {
            continue;
        }
        let score = similarity(&wanted, &normal(candidate));
        if score > 0.0 {
            scored.push((score, candidate));
        }
    }
    scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let best = scored.first().map_or(0.0, |(score, _)| *score);
    let close = scored.into_iter().filter(|(score, _)| *score > best - 0.15);
    close.take(SUGGESTIONS_MAX).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// A help line: ``did you mean `x`?``, with more names when they are as near; `None` when nothing is near.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names: Vec<String> = nearest(name, candidates).iter().map(|name| format!("`{name}`")).collect();
    match names.split_last()? {
        (last, []) => Some(format!("did you mean {last}?")),
        (last, before) => Some(format!("did you mean {} or {last}?", before.join(", "))),
    }
}

/// What to say to a name that is not known: what it was probably meant to be, or all there are.
///
/// `what` names them all, as in ``the goals are `a`, `b` ``.
pub fn near_or_all<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>, what: &str) -> String {
    let all: Vec<&str> = candidates.into_iter().collect();
    if let Some(help) = did_you_mean(name, all.iter().copied()) {
        return help;
    }
    let listed: Vec<String> = all.iter().map(|name| format!("`{name}`")).collect();
    match listed.is_empty() {
        true => format!("{what}: none"),
        false => format!("{what} are {}", listed.join(", ")),
    }
}

/// What a name is compared by: lower case without separators.
fn normal(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.')).flat_map(char::to_lowercase).collect()
}

/// A name without the ending of a plural.
fn singular(name: &str) -> String {
    match name.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => name.strip_suffix('s').unwrap_or(name).to_owned(),
    }
}

/// From 0 (not meant) to 1 (the same but for case and separators).
fn similarity(name: &str, candidate: &str) -> f64 {
    if name == candidate {
        return 1.0;
    }
    if singular(name) == singular(candidate) {
        return 0.97;
    }
    let longest = name.chars().count().max(candidate.chars().count());
    let distance = strsim::damerau_levenshtein(name, candidate);
    let allowed = match longest {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    let by_letters = if distance <= allowed { 1.0 - distance as f64 / longest as f64 } else { 0.0 };
    let by_start =
        if strsim::jaro_winkler(name, candidate) > 0.88 { strsim::jaro_winkler(name, candidate) - 0.3 } else { 0.0 };
    // `int` for `integer`, `desc` for `description`.
    let short = name.len() >= 3 && candidate.starts_with(name);
    let part = name.len() >= 4 && candidate.len() >= 4 && (candidate.contains(name) || name.contains(candidate));
    by_letters.max(by_start).max(if short { 0.6 } else { 0.0 }).max(if part { 0.5 } else { 0.0 })
}

/// Names in backticks, separated by commas.
pub fn listed<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_gets_the_nearest_or_all() {
        assert_eq!(near_or_all("lasst", ["first", "last"], "its goals"), "did you mean `last`?");
        assert_eq!(near_or_all("zzz", ["first", "last"], "its goals"), "its goals are `first`, `last`");
        assert_eq!(near_or_all("zzz", [], "its goals"), "its goals: none");
    }

    #[test]
    fn typing_errors_are_recognised_best_first() {
        assert_eq!(nearest("promt", ["description", "prompt", "output"]), ["prompt"]);
        assert_eq!(nearest("StarPersn", ["Star", "StarPerson", "StarSign"])[0], "StarPerson");
        assert_eq!(nearest("ouptut", ["input", "output"])[0], "output");
        assert_eq!(nearest("star_person", ["StarPerson", "star"])[0], "StarPerson");
        assert_eq!(nearest("input", ["inputs", "import", "output"])[0], "inputs");
        assert_eq!(nearest("nme", ["name", "sign"]), ["name"]);
    }

    /// Typing errors of authors against the language's own words: the right one comes first.
    #[test]
    fn the_languages_words_are_found() {
        let action = [
            "description",
            "inputs",
            "output",
            "pre",
            "post",
            "cost",
            "value",
            "can_rerun",
            "trigger",
            "clear_blackboard",
            "hide",
            "achieves",
            "retry",
            "timeout",
            "delay",
            "on_error",
            "llm",
            "tools",
            "references",
            "persona",
            "contributors",
            "guardrails",
            "max_turns",
            "prompt",
            "set",
            "choose",
            "call",
            "http",
            "exec",
            "agent",
            "ask",
            "scatter_gather",
            "repeat_until",
        ];
        let types = [
            "string",
            "integer",
            "number",
            "boolean",
            "any",
            "date",
            "datetime",
            "uri",
            "email",
            "StarPerson",
            "Horoscope",
            "RelevantNewsStories",
            "UserInput",
            "Writeup",
        ];
        for (wrong, right) in [
            ("descripton", "description"),
            ("desc", "description"),
            ("input", "inputs"),
            ("outputs", "output"),
            ("promt", "prompt"),
            ("prompts", "prompt"),
            ("tool", "tools"),
            ("canRerun", "can_rerun"),
            ("on-error", "on_error"),
            ("max_turn", "max_turns"),
            ("clear_blackbord", "clear_blackboard"),
            ("acheives", "achieves"),
            ("timout", "timeout"),
            ("retries", "retry"),
            ("personas", "persona"),
            ("referenes", "references"),
            ("scatter", "scatter_gather"),
            ("costs", "cost"),
            ("values", "value"),
            ("chose", "choose"),
            ("guardrail", "guardrails"),
        ] {
            assert_eq!(nearest(wrong, action).first().map(String::as_str), Some(right), "{wrong}");
        }
        for (wrong, right) in [
            ("str", "string"),
            ("int", "integer"),
            ("bool", "boolean"),
            ("strng", "string"),
            ("Starperson", "StarPerson"),
            ("StarPersn", "StarPerson"),
            ("Horoscop", "Horoscope"),
            ("NewsStories", "RelevantNewsStories"),
            ("user_input", "UserInput"),
            ("WriteUp", "Writeup"),
            ("numbr", "number"),
            ("Person", "StarPerson"),
            ("dateTime", "datetime"),
        ] {
            assert_eq!(nearest(wrong, types).first().map(String::as_str), Some(right), "{wrong}");
        }
    }

    #[test]
    fn far_names_are_not_offered() {
        assert!(nearest("zebra", ["prompt", "output"]).is_empty());
        assert!(nearest("x", ["y", "z"]).is_empty());
        assert_eq!(did_you_mean("zebra", ["prompt"]), None);
        assert_eq!(did_you_mean("promt", ["prompt"]).as_deref(), Some("did you mean `prompt`?"));
    }
}

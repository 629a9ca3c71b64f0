//! Names of skills: small letters, digits and hyphens, in any script.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;
use unicode_general_category::{GeneralCategory, get_general_category};

/// The longest name, in characters.
pub const NAME_CHARS_MAX: usize = 64;

/// The name in the form in which names are compared: `ﬁ` is `fi`, and an accent on its own joins its letter (NFKC).
pub fn composed(name: &str) -> Cow<'_, str> {
    ComposingNormalizerBorrowed::new_nfkc().normalize(name)
}

/// What is wrong with a name that is not empty: the rule that it breaks, and the message.
pub fn broken_rules(name: &str) -> Vec<(&'static str, String)> {
    let name = composed(name.trim());
    let mut broken = Vec::new();
    let length = name.chars().count();
    if length > NAME_CHARS_MAX {
        broken.push((
            "name-long",
            format!("a skill's name has at most {NAME_CHARS_MAX} characters, and this has {length}"),
        ));
    }
    if name != name.to_lowercase() {
        broken.push(("name-lowercase", format!("a skill's name is in small letters: `{}`", name.to_lowercase())));
    }
    if name.starts_with('-') || name.ends_with('-') {
        broken.push(("name-hyphen", "a skill's name neither begins nor ends with a hyphen".to_owned()));
    }
    if name.contains("--") {
        broken.push(("name-double-hyphen", "a skill's name has no two hyphens in a row".to_owned()));
    }
    if let Some(wrong) = name.chars().find(|&c| c != '-' && !is_letter_or_digit(c)) {
        let message = format!("a skill's name has letters, digits and hyphens only, and no {}", shown(wrong));
        broken.push(("name-characters", message));
    }
    broken
}

/// A name made of the letters and digits of a text, for suggestions; empty when it has none.
pub fn suggested(text: &str) -> String {
    let small = composed(text.trim()).to_lowercase();
    let words = small.split(|c: char| !is_letter_or_digit(c)).filter(|word| !word.is_empty());
    words
        .collect::<Vec<_>>()
        .join("-")
        .chars()
        .take(NAME_CHARS_MAX)
        .collect::<String>()
        .trim_end_matches('-')
        .to_owned()
}

/// A letter or number by its category. Marks on letters, which `char::is_alphanumeric` counts in part, are neither.
fn is_letter_or_digit(c: char) -> bool {
    use GeneralCategory as G;
    matches!(
        get_general_category(c),
        G::UppercaseLetter
            | G::LowercaseLetter
            | G::TitlecaseLetter
            | G::ModifierLetter
            | G::OtherLetter
            | G::DecimalNumber
            | G::LetterNumber
            | G::OtherNumber
    )
}

fn shown(c: char) -> String {
    match c {
        ' ' => "space".to_owned(),
        c if c.is_whitespace() || c.is_control() => format!("character U+{:04X}", c as u32),
        c => format!("`{c}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(name: &str) -> Vec<&'static str> {
        broken_rules(name).into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn names_are_small_letters_digits_and_single_hyphens() {
        for good in ["a", "pdf-processing", "2024-report", "données", "навык", "技能", "ﬁle"] {
            assert_eq!(rules(good), [""; 0], "{good}");
        }
        assert_eq!(rules("PDF-Tools"), ["name-lowercase"]);
        assert_eq!(rules("-a--b-"), ["name-hyphen", "name-double-hyphen"]);
        assert_eq!(rules("a_b c"), ["name-characters"]);
        assert_eq!(rules(&"x".repeat(65)), ["name-long"]);
        // The sign of a vowel is a mark, no letter.
        assert_eq!(rules("हिन्दी"), ["name-characters"]);
    }

    #[test]
    fn a_suggestion_follows_the_rules() {
        assert_eq!(suggested(" My_Skill (v2) "), "my-skill-v2");
        assert_eq!(suggested("--"), "");
        assert!(broken_rules(&suggested(&"Long name ".repeat(20))).is_empty());
    }
}

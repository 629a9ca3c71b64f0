//! Personalities of the log: what is said beside the facts while a run goes on. The words are data, under `themes/`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::decl::module::Personality;
use crate::decl::theme::Theme;
use crate::decl::{Read, ReadCx};
use crate::program;
use crate::source::{self, Sources};

/// What speaks. Each turn's phrases are said one after the other.
#[derive(Debug)]
pub(super) struct Voice {
    of: program::Voice,
    theme: Arc<Theme>,
    said: Mutex<BTreeMap<&'static str, usize>>,
}

impl Voice {
    /// The voice that a program asks for.
    pub(super) fn of(voice: Option<&program::Voice>) -> Option<Voice> {
        let of = voice?.clone();
        let theme = match &of {
            program::Voice::Theme(theme) => theme.clone(),
            program::Voice::Known(known) => Arc::new(theme_of(*known)?),
        };
        Some(Voice { of, theme, said: Mutex::default() })
    }

    /// Whether it is the voice that a program asks for.
    pub(super) fn is(&self, voice: Option<&program::Voice>) -> bool {
        voice == Some(&self.of)
    }

    /// What is said at a turn such as `succeeded`, about an agent or an action; nothing where the theme has no words.
    pub(super) fn say(&self, turn: &str, about: &str) -> Option<String> {
        let (turn, phrases, variable) = self.theme.turns().into_iter().find(|(known, ..)| *known == turn)?;
        let phrases: Vec<&str> = phrases.iter().map(|phrase| phrase.value.as_str()).collect();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let count = said.entry(turn).or_insert(0);
        let phrase = phrases.get(*count % phrases.len().max(1))?;
        *count += 1;
        Some(phrase.replace(&format!("{{{variable}}}"), about))
    }
}

/// The theme of a known personality.
fn theme_of(known: Personality) -> Option<Theme> {
    let (name, text) = match known {
        Personality::None => return None,
        Personality::Starwars => ("starwars.yaml", include_str!("themes/starwars.yaml")),
        Personality::Severance => ("severance.yaml", include_str!("themes/severance.yaml")),
        Personality::Colossus => ("colossus.yaml", include_str!("themes/colossus.yaml")),
        Personality::Hitchhiker => ("hitchhiker.yaml", include_str!("themes/hitchhiker.yaml")),
        Personality::Montypython => ("montypython.yaml", include_str!("themes/montypython.yaml")),
    };
    let mut sources = Sources::default();
    let file = sources.add(name, text);
    let (node, _) = source::read(file, sources.get(file));
    Theme::read(&node?, &mut ReadCx::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_personality_has_words_for_every_turn_and_names_what_there_is() {
        for known in Personality::ALL.iter().filter(|known| **known != Personality::None) {
            let theme = theme_of(*known).expect("it can be read");
            for (turn, phrases, variable) in theme.turns() {
                assert!(phrases.iter().next().is_some(), "{} says nothing when {turn}", known.word());
                for phrase in phrases.iter() {
                    let named: Vec<&str> =
                        phrase.value.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
                    assert!(named.iter().all(|name| *name == variable), "{}: {turn}: {}", known.word(), phrase.value);
                }
            }
        }
    }

    #[test]
    fn phrases_are_said_in_turn_and_name_what_they_are_about() {
        let voice = Voice::of(Some(&program::Voice::Known(Personality::Hitchhiker))).expect("a voice");
        let theme = theme_of(Personality::Hitchhiker).expect("a theme");
        let count = theme.succeeded.iter().count();
        let said: Vec<String> = (0..=count).filter_map(|_| voice.say("succeeded", "find_news")).collect();
        assert_eq!((said.len(), &said[0]), (count + 1, &said[count]));
        assert!(said.iter().all(|phrase| !phrase.contains('{')));
        assert!(voice.say("begins", "star-news").is_some_and(|phrase| phrase.contains("star-news")));
        assert_eq!(voice.say("no such turn", "x"), None);
        assert!(Voice::of(None).is_none());
    }
}

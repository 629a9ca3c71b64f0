//! How progress is told: `logging: {personality: …}` of the project file.

use std::path::Path;
use std::sync::Arc;

use crate::decl::module::{Logging, Personality};
use crate::decl::theme::Theme;
use crate::decl::{Name, Read, ReadCx};
use crate::diag::{Diagnostic, Severity, suggest};
use crate::program::Voice;
use crate::source;
use crate::world::{ReadError, normal};

use super::load::{Loaded, slashed};

/// The words of the log: a known personality, or a theme file of the project. A theme with a mistake is not spoken.
pub(crate) fn voice(loaded: &mut Loaded<'_>, written: &Logging) -> Option<Voice> {
    let name = written.personality.as_ref()?;
    if name.value == Personality::None.word() {
        return None;
    }
    let known = Personality::ALL.iter().find(|known| known.word() == name.value);
    if let Some(known) = known {
        return Some(Voice::Known(*known));
    }
    if !name.value.contains(['/', '.']) {
        let help = suggest::did_you_mean(&name.value, Personality::WORDS.iter().copied()).unwrap_or_else(|| {
            format!("it is one of {}, or the path of a theme file", crate::decl::read::listed(Personality::WORDS))
        });
        let message = format!("there is no personality `{}`", name.value);
        let mut diagnostic = Diagnostic::error("unknown-word", name.span, message).help(help);
        if let [only] = suggest::nearest(&name.value, Personality::WORDS.iter().copied()).as_slice() {
            diagnostic = diagnostic.fix(name.span, only.clone());
        }
        loaded.diagnostics.push(diagnostic);
        return None;
    }
    theme_file(loaded, name).map(|theme| Voice::Theme(Arc::new(theme)))
}

fn theme_file(loaded: &mut Loaded<'_>, name: &Name) -> Option<Theme> {
    let Some(path) = normal(Path::new(&name.value)) else {
        let message = format!("`{}` leads out of the project", name.value);
        loaded.diagnostics.push(Diagnostic::error("path-escapes", name.span, message));
        return None;
    };
    loaded.read.insert(path.clone());
    let text = match loaded.world.read(&path) {
        Ok(text) => text,
        Err(ReadError::NotFound) => {
            let names: Vec<String> =
                loaded.world.list(path.parent().unwrap_or(Path::new(""))).iter().map(slashed).collect();
            let message = format!("there is no file `{}`", name.value);
            let help = suggest::did_you_mean(&name.value, names.iter().map(String::as_str));
            loaded.diagnostics.push(Diagnostic::error("file-not-found", name.span, message).help(help));
            return None;
        }
        Err(error) => {
            let message = format!("cannot read `{}`: {error}", name.value);
            loaded.diagnostics.push(Diagnostic::error("unreadable-file", name.span, message));
            return None;
        }
    };
    let file = loaded.sources.add(slashed(&path), text);
    let (node, errors) = source::read(file, loaded.sources.get(file));
    let mut cx = ReadCx::default();
    cx.diagnostics.extend(errors.into_iter().map(Diagnostic::from));
    let theme = node.and_then(|node| Theme::read(&node, &mut cx));
    for (turn, phrases, variable) in theme.iter().flat_map(Theme::turns) {
        for phrase in phrases.iter() {
            cx.diagnostics.extend(wrong_variable(turn, phrase, variable));
        }
    }
    let is_sound = cx.diagnostics.iter().all(|found| found.severity != Severity::Error);
    loaded.diagnostics.extend(cx.diagnostics);
    theme.filter(|_| is_sound)
}

/// The finding for a variable that a phrase cannot name.
pub(crate) fn wrong_variable(turn: &str, phrase: &Name, variable: &str) -> Option<Diagnostic> {
    let named = phrase.value.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name.trim());
    let wrong = named.into_iter().find(|name| *name != variable)?;
    let help = match variable {
        "" => format!("phrases of `{turn}` name none"),
        variable => format!("phrases of `{turn}` may name `{{{variable}}}`"),
    };
    let message = format!("there is no variable `{wrong}` in this phrase");
    Some(Diagnostic::error("unknown-variable", phrase.span, message).help(help))
}

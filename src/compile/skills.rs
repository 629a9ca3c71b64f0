//! Skills that references name: found and judged before the agents are compiled, each directory once.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::decl::Name;
use crate::diag::{Diagnostic, suggest};
use crate::reference::skill::{self, Found};
use crate::world::{ReadError, normal};

use super::agent::AgentCx;
use super::load::{Loaded, slashed};

/// Finds the skills of all directories that references name. Skills that are wrong are left out, with warnings.
pub(super) fn find(loaded: &mut Loaded<'_>) {
    let named: Vec<Name> = loaded
        .modules
        .iter()
        .flat_map(|module| module.decl.references.iter())
        .filter_map(|(_, reference)| reference.skills.clone())
        .collect();
    for path in named {
        if is_repository(&path) {
            continue;
        }
        let Some(inside) = normal(Path::new(&path.value)) else {
            loaded.diagnostics.push(ReadError::Escapes.diagnostic(&path.value, path.span));
            continue;
        };
        if loaded.skills.contains_key(&inside) {
            continue;
        }
        loaded.read.insert(inside.clone());
        if !loaded.world.exists(&inside) {
            let above = inside.parent().unwrap_or(Path::new(""));
            let files = loaded.world.list(above);
            let dirs = files.iter().flat_map(|file| file.ancestors().skip(1)).filter(|dir| dir.starts_with(above));
            let near: BTreeSet<String> = dirs.map(slashed).filter(|dir| !dir.is_empty()).collect();
            let message = format!("there is no directory `{}`", path.value);
            let help = suggest::did_you_mean(&path.value, near.iter().map(String::as_str));
            let help = help.unwrap_or_else(|| "correct the path, or create the directory".to_owned());
            loaded.diagnostics.push(Diagnostic::error("file-not-found", path.span, message).help(help));
            continue;
        }
        let found = skill::discover(loaded.world, &inside, &mut loaded.sources);
        loaded.read.extend(found.read.iter().cloned());
        for warning in found.wrong.iter().flat_map(skill::warnings) {
            let span = warning.span.or(Some(path.span));
            loaded.diagnostics.push(Diagnostic { span, ..warning });
        }
        if found.skills.is_empty() && found.wrong.is_empty() {
            let message = format!("there is no skill in `{}`", path.value);
            let help = "a skill is a directory with a file `SKILL.md`, at most six directories below";
            loaded.diagnostics.push(Diagnostic::warning("bad-skill", path.span, message).help(help));
        }
        loaded.skills.insert(inside, Arc::new(found));
    }
}

/// Whether a path is the address of a repository: `https://…`, or `git@host:path`.
pub(super) fn is_repository(path: &Name) -> bool {
    path.value.contains("://") || path.value.split_once(':').is_some_and(|(host, _)| host.contains('@'))
}

impl AgentCx<'_> {
    /// The skills of a reference: those that were found, or none where the directory is missing, which was reported.
    pub(super) fn skills(&mut self, name: &Name, path: &Name) -> Option<Arc<Found>> {
        let found = self.loaded.skills.get(&normal(Path::new(&path.value))?).cloned().unwrap_or_default();
        self.referencing.texts.insert(name.value.clone(), Arc::from(format!("{:?}", found.skills)));
        Some(found)
    }
}

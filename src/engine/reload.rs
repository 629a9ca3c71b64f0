//! Hot reload: files are compiled aside, and a valid program takes the place of the one in force (runtime.md 6).
//!
//! Start-up is a reload from nothing. A reload that finds mistakes changes nothing but the diagnostics that are shown.

use std::path::PathBuf;
use std::sync::Arc;

use crate::compile::{Checked, Entry, compile};
use crate::diag::{Diagnostic, Severity};
use crate::program::{Change, Program};
use crate::source::Sources;
use crate::world::World;

use super::{Engine, Person};

/// What a reload has found and done.
#[derive(Debug)]
pub struct Reload {
    /// What differs from the program that was in force, by name; empty when nothing does.
    pub changes: Vec<Change>,
    /// Everything that is wrong in the files now, sorted.
    pub diagnostics: Vec<Diagnostic>,
    /// The files that the diagnostics point into.
    pub sources: Sources,
    /// How much was checked.
    pub checked: Checked,
    /// Whether a new program is in force.
    pub swapped: bool,
    /// Whether the files as they were before had errors, and now have none.
    pub cured: bool,
}

impl Reload {
    /// Whether the files have errors: what was in force still is.
    pub fn is_refused(&self) -> bool {
        self.diagnostics.iter().any(|found| found.severity == Severity::Error)
    }
}

/// Compiles the same entry again and again, and keeps an engine at the last program that was valid.
pub struct Reloader {
    world: Arc<dyn World>,
    entry: Entry,
    person: Option<Arc<dyn Person>>,
    engine: Option<Engine>,
    read: Vec<PathBuf>,
    was_refused: bool,
}

impl Reloader {
    /// A reloader that has read nothing yet.
    pub fn new(world: Arc<dyn World>, entry: Entry) -> Reloader {
        Reloader { world, entry, person: None, engine: None, read: Vec::new(), was_refused: false }
    }

    /// The same, whose engine has someone who can be asked.
    pub fn with_person(mut self, person: Option<Arc<dyn Person>>) -> Reloader {
        self.person = person;
        self
    }

    /// The engine of the program in force; none until a reload was valid.
    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    /// Every path that the last reload read or looked for, relative to the root.
    pub fn read(&self) -> &[PathBuf] {
        &self.read
    }

    /// Reads the files as they are now, and puts what they say in force if it is valid and differs.
    pub fn reload(&mut self) -> Reload {
        let compiled = compile(self.world.as_ref(), self.entry.clone());
        self.read = compiled.read;
        let mut reload = Reload {
            changes: Vec::new(),
            diagnostics: compiled.diagnostics.sorted(&compiled.sources),
            sources: compiled.sources,
            checked: compiled.checked,
            swapped: false,
            cured: false,
        };
        let Some(program) = compiled.program else {
            self.was_refused = true;
            let errors = reload.diagnostics.iter().filter(|found| found.severity == Severity::Error);
            let reasons = errors.map(|error| crate::diag::render::short(std::slice::from_ref(error), &reload.sources));
            let reasons: Vec<String> = reasons.map(|line| line.trim_end().to_owned()).collect();
            if let Some(engine) = &self.engine {
                engine.current.refuse(Some(reasons));
            }
            return reload;
        };
        reload.cured = std::mem::take(&mut self.was_refused);
        match &self.engine {
            None => {
                reload.changes = Program::diff(None, &program);
                reload.swapped = true;
                self.engine = Some(match self.person.clone() {
                    Some(person) => Engine::with_person(program, self.world.clone(), person),
                    None => Engine::new(program, self.world.clone()),
                });
            }
            Some(engine) => {
                let old = engine.program();
                if old.same_as(&program) {
                    engine.current.refuse(None);
                } else {
                    reload.changes = Program::diff(Some(&old), &program);
                    reload.swapped = true;
                    engine.swap(program);
                }
            }
        }
        reload
    }
}

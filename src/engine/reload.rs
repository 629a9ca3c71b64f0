//! Hot reload: files are compiled aside, and a valid program takes the place of the one in force (runtime.md 6).
//!
//! Start-up is a reload from nothing. A reload that finds mistakes changes nothing but the diagnostics that are shown.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::compile::{Checked, Compiled, Entry, Memory, compile_again};
use crate::diag::{Diagnostic, Severity};
use crate::program::{Change, Program};
use crate::source::Sources;
use crate::world::watch::{Watch, WatchError};
use crate::world::{Snapshot, World};

use super::{Engine, Person};

/// How often files that change while they are read are read again.
const STEADY_TRIES: usize = 3;

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
    /// How many agents the files have.
    pub agents: usize,
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
    snapshot: Snapshot,
    /// What the last compilation has left to the next.
    memory: Memory,
    was_refused: bool,
    /// Whether at the last look at the files one of them looked as if only a part of it was there.
    has_cut: bool,
}

impl Reloader {
    /// A reloader that has read nothing yet.
    pub fn new(world: Arc<dyn World>, entry: Entry) -> Reloader {
        let snapshot = Snapshot::new(world.clone());
        Reloader {
            world,
            entry,
            person: None,
            engine: None,
            snapshot,
            memory: Memory::new(),
            was_refused: false,
            has_cut: false,
        }
    }

    /// A reloader that goes on from an engine whose program was compiled from the same entry.
    pub fn after(engine: Engine, world: Arc<dyn World>, entry: Entry) -> Reloader {
        Reloader { engine: Some(engine), ..Reloader::new(world, entry) }
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

    /// Files that the last reload read or looked for, and directories that it listed (`true`), relative to the root.
    pub fn asked(&self) -> Vec<(PathBuf, bool)> {
        self.snapshot.asked()
    }

    /// Whether some file is no longer as the last reload saw it.
    pub fn is_stale(&self) -> bool {
        !self.snapshot.is_current()
    }

    /// Reloads at each edit until `stop` is set and the watch is woken; `on` hears of each reload that has something to
    /// say.
    ///
    /// # Errors
    /// When files cannot be watched.
    pub fn follow(
        &mut self,
        watch: &mut Watch,
        stop: &AtomicBool,
        mut on: impl FnMut(&Reload),
    ) -> Result<(), WatchError> {
        loop {
            let mut compiled = self.steady();
            if self.has_cut {
                // Editors empty a file, or take it away, and write it in pieces: it must be quiet for longer.
                watch.settle_well();
                compiled = self.steady();
            }
            if !self.snapshot.is_whole() {
                // It is being written still. What was made of half of it is not put in force, and nobody is told.
                watch.settle();
                if stop.load(Ordering::SeqCst) {
                    return Ok(());
                }
                continue;
            }
            let reload = self.apply(compiled);
            if reload.swapped || reload.cured || reload.is_refused() {
                on(&reload);
            }
            watch.aim(&self.asked())?;
            // What was written between the reading and the watching is seen here, without an event.
            while !self.is_stale() {
                watch.wait(None);
                if stop.load(Ordering::SeqCst) {
                    return Ok(());
                }
            }
        }
    }

    fn compile(&mut self) -> Compiled {
        self.snapshot = self.snapshot.next();
        compile_again(&self.snapshot, self.entry.clone(), &mut self.memory)
    }

    /// Compiles the files in one state: those that were written while they were read are read again, because half of an
    /// edit is no edit.
    fn steady(&mut self) -> Compiled {
        let mut compiled = self.compile();
        self.has_cut = self.snapshot.has_cut();
        for _ in 0..STEADY_TRIES {
            if self.snapshot.is_current() {
                break;
            }
            compiled = self.compile();
        }
        compiled
    }

    /// Reads the files as they are now, and puts what they say in force if it is valid and differs.
    pub fn reload(&mut self) -> Reload {
        let compiled = self.steady();
        self.apply(compiled)
    }

    fn apply(&mut self, compiled: Compiled) -> Reload {
        let mut reload = Reload {
            changes: Vec::new(),
            diagnostics: compiled.diagnostics.sorted(&compiled.sources),
            sources: compiled.sources,
            agents: compiled.checked.agents,
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

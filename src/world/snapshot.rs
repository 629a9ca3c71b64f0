//! A world as it was when it was asked: every question is asked once, and its answer kept.
//!
//! A compilation that reads a snapshot sees one state of each file, and leaves behind exactly what it read, looked for
//! and listed: whether any of it has changed since can be asked later, and texts that have not are carried into the
//! next snapshot without being read again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{ReadError, Stamp, World};

/// What a question was answered with.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Text(Result<Arc<str>, ReadError>),
    Bytes(Result<Arc<[u8]>, ReadError>),
    List(Arc<[PathBuf]>),
    Exists(bool),
}

/// What was asked about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Text,
    Bytes,
    List,
    Exists,
}

#[derive(Clone, Debug)]
struct Kept {
    /// The file's stamp before it was read; none when only reading tells.
    stamp: Option<Stamp>,
    answer: Answer,
}

type Answers = BTreeMap<(PathBuf, Question), Kept>;

/// A world as it was when it was asked.
pub struct Snapshot {
    world: Arc<dyn World>,
    before: Answers,
    answers: Mutex<Answers>,
}

impl Snapshot {
    /// A snapshot of nothing yet.
    pub fn new(world: Arc<dyn World>) -> Snapshot {
        Snapshot { world, before: Answers::new(), answers: Mutex::default() }
    }

    /// A snapshot of nothing yet, which takes over what has not changed since this one: the same text is the same `Arc`.
    pub fn next(&self) -> Snapshot {
        Snapshot { world: self.world.clone(), before: self.lock().clone(), answers: Mutex::default() }
    }

    /// Whether every question would be answered now as it was then.
    pub fn is_current(&self) -> bool {
        let answers = self.lock().clone();
        answers.iter().all(|((path, question), kept)| {
            if kept.stamp.is_some() && self.world.stamp(path) == kept.stamp {
                return true;
            }
            self.ask(path, *question) == kept.answer
        })
    }

    /// Whether every file that was read is as it was then, so that what was made of them is of one state.
    pub fn is_whole(&self) -> bool {
        let answers = self.lock().clone();
        answers.iter().all(|((path, question), kept)| match question {
            Question::List | Question::Exists => true,
            _ => {
                (kept.stamp.is_some() && self.world.stamp(path) == kept.stamp)
                    || self.ask(path, *question) == kept.answer
            }
        })
    }

    /// Whether a file that was read looks now as if only a part of it was there, as it does while it is saved.
    pub fn looks_cut(&self) -> bool {
        let answers = self.lock().clone();
        answers.iter().any(|((path, question), kept)| match &kept.answer {
            Answer::Text(Ok(before)) => {
                let same = kept.stamp.is_some() && self.world.stamp(path) == kept.stamp;
                !same && is_cut(Some(before), self.world.read(path).as_deref().unwrap_or_default())
            }
            Answer::Text(Err(ReadError::NotFound)) if *question == Question::Text => {
                self.world.read(path).is_ok_and(|text| is_cut(None, &text))
            }
            _ => false,
        })
    }

    /// Whether a file in this snapshot looks as if only a part of it was there, beside what the snapshot before saw, and
    /// is still so.
    pub fn has_cut(&self) -> bool {
        if self.before.is_empty() {
            return false;
        }
        let answers = self.lock().clone();
        let text = |answers: &Answers, key: &(PathBuf, Question)| match answers.get(key).map(|kept| &kept.answer) {
            Some(Answer::Text(Ok(text))) => Some(Arc::clone(text)),
            _ => None,
        };
        let texts = self.before.keys().chain(answers.keys()).filter(|(_, question)| *question == Question::Text);
        texts.filter(|key| text(&self.before, key) != text(&answers, key)).any(|key| {
            let (before, now) = (text(&self.before, key), text(&answers, key));
            is_cut(before.as_deref(), now.as_deref().unwrap_or_default())
                && self.world.read(&key.0).as_deref().unwrap_or_default() == now.as_deref().unwrap_or_default()
        })
    }

    /// Files that were read or looked for, and directories that were listed (`true`).
    pub fn asked(&self) -> Vec<(PathBuf, bool)> {
        self.lock().keys().map(|(path, question)| (path.clone(), *question == Question::List)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, path: &Path, question: Question) -> Answer {
        match question {
            Question::Text => Answer::Text(self.world.read(path)),
            Question::Bytes => Answer::Bytes(self.world.read_bytes(path).map(Arc::from)),
            Question::List => Answer::List(self.world.list(path).into()),
            Question::Exists => Answer::Exists(self.world.exists(path)),
        }
    }

    fn answer(&self, path: &Path, question: Question) -> Answer {
        let key = (path.to_owned(), question);
        if let Some(kept) = self.lock().get(&key) {
            return kept.answer.clone();
        }
        let is_file = matches!(question, Question::Text | Question::Bytes);
        let stamp = if is_file { self.world.stamp(path) } else { None };
        let before = self.before.get(&key);
        let answer = match before {
            Some(before) if stamp.is_some() && before.stamp == stamp => before.answer.clone(),
            _ => {
                let answer = self.ask(path, question);
                // What was read again and is the same stays the same text in memory.
                before.map(|before| &before.answer).filter(|before| **before == answer).cloned().unwrap_or(answer)
            }
        };
        self.lock().entry(key).or_insert(Kept { stamp, answer }).answer.clone()
    }
}

/// Whether a text looks like the first piece of one that takes the place of `before`: nothing, a last line without its
/// end where there was one (or where nothing is known), or less than before without its last line.
fn is_cut(before: Option<&str>, now: &str) -> bool {
    let last = |text: &str| text.trim_end().lines().next_back().map(str::to_owned);
    match before {
        Some(before) if before.trim().is_empty() => false,
        Some(_) if now.trim().is_empty() => true,
        Some(before) => {
            (before.ends_with('\n') && !now.ends_with('\n')) || (now.len() < before.len() && last(now) != last(before))
        }
        None => !now.is_empty() && !now.ends_with('\n'),
    }
}

impl World for Snapshot {
    fn read(&self, path: &Path) -> Result<Arc<str>, ReadError> {
        match self.answer(path, Question::Text) {
            Answer::Text(text) => text,
            _ => self.world.read(path),
        }
    }

    fn read_bytes(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        match self.answer(path, Question::Bytes) {
            Answer::Bytes(bytes) => bytes.map(|bytes| bytes.to_vec()),
            _ => self.world.read_bytes(path),
        }
    }

    fn list(&self, dir: &Path) -> Vec<PathBuf> {
        match self.answer(dir, Question::List) {
            Answer::List(paths) => paths.to_vec(),
            _ => self.world.list(dir),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        match self.answer(path, Question::Exists) {
            Answer::Exists(exists) => exists,
            _ => self.world.exists(path),
        }
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        self.world.stamp(path)
    }

    fn is_as_before(&self, path: &Path) -> bool {
        let questions = [Question::Text, Question::Bytes, Question::List, Question::Exists];
        let before = questions.map(|question| self.before.get_key_value(&(path.to_owned(), question)));
        let mut before = before.into_iter().flatten().peekable();
        before.peek().is_some() && before.all(|((path, question), kept)| self.answer(path, *question) == kept.answer)
    }

    fn root(&self) -> Option<&Path> {
        self.world.root()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.world.env(name)
    }

    fn now(&self) -> jiff::Timestamp {
        self.world.now()
    }

    fn new_id(&self) -> String {
        self.world.new_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MemoryWorld;

    #[test]
    fn a_snapshot_sees_one_state_and_knows_when_it_is_old() {
        let world = Arc::new(MemoryWorld::with_files([("a/x.yaml", "one"), ("b.yaml", "b")]));
        let snapshot = Snapshot::new(world.clone());
        let text = snapshot.read(Path::new("a/x.yaml")).unwrap();
        assert_eq!(snapshot.read(Path::new("later.yaml")), Err(ReadError::NotFound));
        assert!(snapshot.is_current());
        // What nobody asked about does not count.
        world.save("b.yaml", "other");
        assert!(snapshot.is_current());
        world.save("a/x.yaml", "two");
        assert_eq!((snapshot.read(Path::new("a/x.yaml")).as_deref(), snapshot.is_current()), (Ok("one"), false));
        world.save("a/x.yaml", "one");
        assert!(snapshot.is_current());
        world.save("later.yaml", "here");
        assert!(!snapshot.is_current());
        let next = snapshot.next();
        assert!(Arc::ptr_eq(&text, &next.read(Path::new("a/x.yaml")).unwrap()));
        assert_eq!(next.list(Path::new("a")).len(), 1);
        world.save("a/y.yaml", "new");
        assert!(!next.is_current());
    }

    #[test]
    fn what_was_asked_before_is_asked_again_when_something_hangs_on_it() {
        let world = Arc::new(MemoryWorld::with_files([("a.txt", "one"), ("b.txt", "b")]));
        let first = Snapshot::new(world.clone());
        assert!(first.exists(Path::new("a.txt")) && first.read_bytes(Path::new("b.txt")).is_ok());
        let next = first.next();
        assert!(next.is_as_before(Path::new("a.txt")) && !next.is_as_before(Path::new("c.txt")));
        assert_eq!(next.asked(), [(PathBuf::from("a.txt"), false)]);
        world.save("b.txt", "other");
        assert!(!next.is_as_before(Path::new("b.txt")));
    }

    #[test]
    fn a_file_that_is_being_saved_looks_cut() {
        let whole = "one\ntwo\nthree\n";
        for (now, is_cut) in [
            ("", true),
            (" \n", true),
            ("one\ntwo\n", true),
            ("one\nother\ntwo\nth", true),
            ("one\nthree\n", false),
            ("one\ntwo\nfour and more\n", false),
            ("one\ntwo\nthree\nfour\n", false),
        ] {
            let world = Arc::new(MemoryWorld::with_files([("x.yaml", whole), ("empty.yaml", "")]));
            let snapshot = Snapshot::new(world.clone());
            assert!(snapshot.read(Path::new("x.yaml")).is_ok() && snapshot.read(Path::new("empty.yaml")).is_ok());
            assert!(!snapshot.looks_cut() && !snapshot.has_cut());
            world.save("x.yaml", now);
            assert_eq!(snapshot.looks_cut(), is_cut, "{now:?}");
            for is_asked in [true, false] {
                let next = snapshot.next();
                assert!(!is_asked || next.read(Path::new("x.yaml")).is_ok());
                assert_eq!(next.has_cut(), if is_asked { is_cut } else { now.is_empty() }, "{now:?}");
                assert!(next.is_whole());
                // What was there before is no news.
                let later = next.next();
                assert!(later.read(Path::new("x.yaml")).is_ok());
                assert!(!is_asked || !later.has_cut());
                world.save("x.yaml", "one more\n");
                assert_eq!(next.is_whole(), !is_asked);
                world.save("x.yaml", now);
            }
            world.delete("x.yaml");
            assert!(snapshot.looks_cut());
        }
    }
}

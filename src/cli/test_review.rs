//! `test --review`: one snapshot after the other, accepted, rejected or skipped.

use std::io::BufRead;
use std::path::Path;

use crate::diag::diff::lines as diff_lines;
use crate::testing::{Pending, Report};

use super::output::{BOLD, DIM, GREEN, RED, YELLOW};
use super::test::diff_line;
use super::{Exit, Fault, Out};

/// What is done with one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Accept,
    AcceptAll,
    Reject,
    Skip,
    Whole,
    Quit,
}

/// Walks through the snapshots of a run that wait for a decision. Keys are read at a terminal, else lines of standard input.
pub(super) fn review(report: &Report, root: &Path, out: &Out) -> Result<Exit, Fault> {
    let pending: Vec<&Pending> = report.cases.iter().flat_map(|case| &case.pending).collect();
    let others =
        report.cases.iter().flat_map(|case| &case.problems).filter(|problem| problem.what != "prompts").count();
    let (mut accepted, mut rejected, mut skipped) = (0, 0, 0);
    let mut all = false;
    for (at, one) in pending.iter().enumerate() {
        if !all {
            show(one, root, at + 1, pending.len(), AROUND, out);
        }
        let decision = loop {
            match if all { Decision::Accept } else { ask(out)? } {
                Decision::Whole => show(one, root, at + 1, pending.len(), usize::MAX, out),
                other => break other,
            }
        };
        // At a terminal the key itself is not seen.
        let word = match decision {
            Decision::Accept | Decision::AcceptAll => "accepted",
            Decision::Reject => "rejected",
            Decision::Skip | Decision::Whole | Decision::Quit => "skipped",
        };
        out.note(out.paint_err(DIM, word));
        let done = match decision {
            Decision::Accept | Decision::AcceptAll => {
                all |= decision == Decision::AcceptAll;
                accepted += 1;
                one.accept()
            }
            Decision::Reject => {
                rejected += 1;
                one.reject()
            }
            Decision::Quit => {
                skipped += pending.len() - at;
                break;
            }
            Decision::Skip | Decision::Whole => {
                skipped += 1;
                Ok(())
            }
        };
        done.map_err(|error| Fault::failed(format!("`{}` cannot be written: {error}", one.path.display())))?;
    }
    let counted = [(accepted, "accepted"), (rejected, "rejected"), (skipped, "skipped")];
    let parts: Vec<String> = counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    out.line(match parts.is_empty() {
        true => "no snapshot waits for a decision".to_owned(),
        false => parts.join(", "),
    });
    let unreadable =
        report.cases.iter().flat_map(|case| &case.problems).filter(|problem| problem.what == "prompts").count();
    let settled = accepted == pending.len() && others == 0 && unreadable <= pending.len();
    Ok(if settled { Exit::Done } else { Exit::Failed })
}

/// Lines around each change.
const AROUND: usize = 3;

fn show(one: &Pending, root: &Path, number: usize, of: usize, around: usize, out: &Out) {
    let path = one.path.strip_prefix(root).unwrap_or(&one.path).display();
    let state = if one.old.is_some() { out.paint(YELLOW, "changed") } else { out.paint(GREEN, "new") };
    out.line(format!(
        "\n{} {state}  {}",
        out.paint(BOLD, format!("[{number}/{of}] {path}")),
        out.paint(DIM, &one.new.description)
    ));
    match &one.old {
        Some(old) => {
            // All lines of both texts are as many as are ever around a change.
            let around = around.min(old.text.lines().count() + one.new.text.lines().count());
            diff_lines(&old.text, &one.new.text, around).iter().for_each(|line| out.line(diff_line(line, out)));
        }
        None => one.new.text.lines().for_each(|line| out.line(out.paint(GREEN, format!("     + {line}")))),
    }
}

fn ask(out: &Out) -> Result<Decision, Fault> {
    let keys = "[a]ccept, [r]eject, [s]kip, [d]iff in full, accept [A]ll, [q]uit";
    loop {
        out.note(format!("{} ", out.paint_err(BOLD, keys)));
        let key = if out.interactive { key()? } else { line()? };
        match key {
            Some('a' | 'y') => return Ok(Decision::Accept),
            Some('A') => return Ok(Decision::AcceptAll),
            Some('r' | 'n') => return Ok(Decision::Reject),
            Some('s') => return Ok(Decision::Skip),
            Some('d') => return Ok(Decision::Whole),
            // The end of the input leaves the rest as it is.
            Some('q') | None => return Ok(Decision::Quit),
            Some(other) => out.note(out.paint_err(RED, format!("`{other}` is none of them"))),
        }
    }
}

fn key() -> Result<Option<char>, Fault> {
    loop {
        match console::Term::stderr().read_key() {
            Ok(console::Key::Char(key)) => return Ok(Some(key)),
            Ok(console::Key::Enter) => {}
            Ok(console::Key::Escape | console::Key::CtrlC) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(Fault::failed(format!("the terminal cannot be read: {error}"))),
        }
    }
}

fn line() -> Result<Option<char>, Fault> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    match read {
        Ok(0) => Ok(None),
        Ok(_) => Ok(line.trim().chars().next().or(Some('s'))),
        Err(error) => Err(Fault::failed(format!("standard input cannot be read: {error}"))),
    }
}

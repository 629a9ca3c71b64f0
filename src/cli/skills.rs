//! `skills`: a verdict on directories of skills.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::diag::render;
use crate::diag::{Diagnostic, Severity};
use crate::reference::skill::{self, Candidate, Skill};
use crate::source::Sources;
use crate::world::{SystemWorld, normal};

use super::args::{SkillsArgs, SkillsVerb};
use super::output::{GREEN, RED};
use super::{Exit, Fault, Out};

/// Does what the words after the verb say.
pub(super) fn skills(args: &SkillsArgs, out: &Out) -> Result<Exit, Fault> {
    match &args.verb {
        SkillsVerb::Validate { dirs } => validate(dirs, out),
    }
}

/// A directory that was judged.
struct Judged {
    /// As it was named.
    path: PathBuf,
    skill: Option<Skill>,
    candidate: Candidate,
    sources: Sources,
}

/// Judges every directory that is named: a skill, its `SKILL.md`, or a directory of skills.
fn validate(dirs: &[PathBuf], out: &Out) -> Result<Exit, Fault> {
    let mut judged = Vec::new();
    for dir in dirs {
        judged.extend(judge(dir)?);
    }
    if out.json {
        out.document(&judged.iter().map(Judged::document).collect::<Vec<_>>());
    } else {
        judged.iter().for_each(|one| one.show(out));
    }
    Ok(if judged.iter().all(|one| one.skill.is_some()) { Exit::Done } else { Exit::Wrong })
}

fn judge(named: &Path) -> Result<Vec<Judged>, Fault> {
    let is_file = named.is_file() && named.file_name().is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"));
    let dir = match named.parent() {
        Some(parent) if is_file && parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) if is_file => parent,
        _ => named,
    };
    if !dir.is_dir() {
        let problem = if dir.exists() { "is no directory" } else { "is not there" };
        return Err(Fault::wrong(format!("`{}` {problem}", named.display()))
            .help("name the directory of a skill, or one that holds skills"));
    }
    let whole = std::fs::canonicalize(dir)
        .map_err(|error| Fault::wrong(format!("`{}` cannot be read: {error}", named.display())))?;
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Places are shown as paths from here, where the directory is below.
    let here = std::env::current_dir().ok().and_then(|here| std::fs::canonicalize(here).ok());
    let (root, top) = match (here, normal(dir)) {
        (Some(here), Some(inside)) if whole.starts_with(&here) => (here, inside),
        _ => (whole, PathBuf::new()),
    };
    let world = SystemWorld::new(root);
    let mut dirs = skill::dirs(&world, &top);
    if dirs.is_empty() {
        dirs.push(top.clone());
    }
    let judged = dirs.into_iter().map(|found| {
        let mut sources = Sources::new();
        let own = (found == top).then_some(name.as_str());
        let (skill, candidate) = skill::check(&world, &found, own, &mut sources);
        let below = found.strip_prefix(&top).unwrap_or(&found);
        let path = if below.as_os_str().is_empty() { dir.to_owned() } else { dir.join(below) };
        Judged { path, skill, candidate, sources }
    });
    Ok(judged.collect())
}

impl Judged {
    fn document(&self) -> Value {
        let findings = self.candidate.findings.iter().map(|finding| {
            let place = finding.diagnostic.span.map(|span| self.sources.get(span.file).line_column(span.start));
            json!({
                "rule": finding.rule,
                "code": finding.diagnostic.code,
                "message": finding.diagnostic.message,
                "help": finding.diagnostic.help.first(),
                "line": place.map(|place| place.0),
                "column": place.map(|place| place.1),
            })
        });
        json!({
            "path": self.path,
            "valid": self.skill.is_some(),
            "name": self.skill.as_ref().map(|skill| &skill.front.name),
            "findings": findings.collect::<Vec<_>>(),
        })
    }

    fn show(&self, out: &Out) {
        let path = self.path.display();
        if let Some(skill) = &self.skill {
            if !out.quiet {
                out.line(format!("{} {path}: the skill `{}` is valid", out.paint(GREEN, "✓"), skill.front.name));
            }
            return;
        }
        let found: Vec<Diagnostic> = self.candidate.findings.iter().map(|finding| finding.diagnostic.clone()).collect();
        let text = render::human(&found, &self.sources, super::loaded::render_options(out.color_err));
        Out { quiet: false, ..*out }.note(text.trim_end());
        let count = found.iter().filter(|one| one.severity == Severity::Error).count();
        if !out.quiet {
            let what = if count == 1 { "mistake" } else { "mistakes" };
            out.line(format!("{} {path}: {count} {what}", out.paint(RED, "✗")));
        }
    }
}

//! `skills`: what is configured, and a verdict on directories of skills.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::diag::render;
use crate::diag::{Diagnostic, Severity};
use crate::program::Program;
use crate::reference::skill::{self, Candidate, Skill};
use crate::source::Sources;
use crate::world::{SystemWorld, normal};

use super::args::{Global, SkillsArgs, SkillsVerb};
use super::loaded::configured;
use super::output::{BOLD, DIM, GREEN, RED};
use super::project::root_and_entry;
use super::{Exit, Fault, Out};

/// Lists the skills of the project's references, or judges directories.
pub(super) fn skills(args: &SkillsArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    match &args.verb {
        Some(SkillsVerb::Validate { dirs }) => validate(dirs, out),
        None => list(args, global, out),
    }
}

/// A skill that is configured.
struct Configured<'a> {
    /// The reference, where a prompt names it.
    reference: Option<String>,
    /// The agents whose prompts name it.
    agents: Vec<&'a str>,
    skill: &'a Skill,
}

fn list(args: &SkillsArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let (root, entry) = root_and_entry(args.target.as_deref(), global)?;
    let Some((compiled, program)) = configured(&root, entry, out) else { return Ok(Exit::Wrong) };
    let mut configured = Vec::new();
    for (dir, found) in &compiled.skills {
        let mut naming: Vec<(String, Vec<&str>)> = Vec::new();
        for agent in &program.agents {
            let named = agent.references.iter().flatten().filter(|reference| {
                reference.material.kind() == "skills"
                    && normal(Path::new(&reference.material.place())).as_ref() == Some(dir)
            });
            for reference in named {
                match naming.iter_mut().find(|(name, _)| *name == reference.name) {
                    Some((_, agents)) => agents.push(&agent.name),
                    None => naming.push((reference.name.clone(), vec![&agent.name])),
                }
            }
        }
        for skill in found.skills.values() {
            if naming.is_empty() {
                configured.push(Configured { reference: None, agents: Vec::new(), skill });
            }
            let named = naming.iter();
            configured.extend(named.map(|(reference, agents)| Configured {
                reference: Some(reference.clone()),
                agents: agents.clone(),
                skill,
            }));
        }
    }
    let repositories = repositories(&program, &root);
    let wrong: Vec<Judged> = compiled
        .skills
        .values()
        .flat_map(|found| &found.wrong)
        .map(|candidate| Judged {
            path: candidate.dir.clone(),
            skill: None,
            candidate: candidate.clone(),
            sources: compiled.sources.clone(),
        })
        .collect();
    let pings: Vec<Vec<String>> = match args.ping {
        true => configured.iter().map(|one| ping(&root, one.skill)).collect(),
        false => Vec::new(),
    };
    if out.json {
        let skills = configured.iter().enumerate().map(|(at, one)| one.document(pings.get(at)));
        out.document(&json!({
            "skills": skills.collect::<Vec<_>>(),
            "left_out": wrong.iter().map(Judged::document).collect::<Vec<_>>(),
            "repositories": repositories,
        }));
    } else {
        configured.iter().enumerate().for_each(|(at, one)| one.show(pings.get(at), out));
        for one in &wrong {
            let why: Vec<&str> =
                one.candidate.findings.iter().map(|finding| finding.diagnostic.message.as_str()).collect();
            out.line(format!("{}  left out: {}", out.paint(RED, one.path.display()), why.join("; ")));
        }
        for repository in &repositories {
            let word = |key: &str| repository[key].as_str().unwrap_or_default().to_owned();
            let state = match word("commit") {
                commit if commit.is_empty() => "a run fetches it".to_owned(),
                commit => format!("at {commit}"),
            };
            out.line(format!("{}  of `{}`; {state}", out.paint(BOLD, word("url")), word("reference")));
        }
        if configured.is_empty() && wrong.is_empty() && repositories.is_empty() {
            out.line("no reference of the project has skills");
        }
    }
    Ok(if pings.iter().all(Vec::is_empty) { Exit::Done } else { Exit::Failed })
}

/// The repositories that skills come from; what they have is known once they are here.
fn repositories(program: &Program, root: &Path) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for reference in program.agents.iter().flat_map(|agent| agent.references.iter().flatten()) {
        if reference.material.kind() != "skills" || !reference.material.is_remote() {
            continue;
        }
        let commit = reference.material.kept(root).and_then(|kept| kept.state);
        let entry = json!({"reference": reference.name, "url": reference.material.place(), "commit": commit});
        if !found.contains(&entry) {
            found.push(entry);
        }
    }
    found
}

/// What does not answer of a skill: files that cannot be read, scripts that nothing runs.
fn ping(root: &Path, skill: &Skill) -> Vec<String> {
    let dir = root.join(&skill.dir);
    let mut wrong = Vec::new();
    if let Err(error) = std::fs::read_dir(&dir) {
        wrong.push(format!("`{}` cannot be read: {error}", skill.dir.display()));
    }
    let scripts = std::fs::read_dir(dir.join("scripts")).into_iter().flatten().flatten();
    for script in scripts.filter(|entry| entry.path().is_file()) {
        if let Err(why) = skill::material::runs_with(&script.path()) {
            wrong.push(why);
        }
    }
    wrong.sort();
    wrong
}

impl Configured<'_> {
    fn document(&self, ping: Option<&Vec<String>>) -> Value {
        let front = &self.skill.front;
        let mut document = json!({
            "name": front.name,
            "description": front.description,
            "reference": self.reference,
            "agents": self.agents,
            "file": self.skill.file,
            "license": front.license,
            "compatibility": front.compatibility,
            "metadata": front.metadata.iter().cloned().collect::<indexmap::IndexMap<String, String>>(),
            "allowed_tools": front.allowed_tools,
            "scripts": self.skill.has_scripts,
        });
        if let Some(wrong) = ping {
            document["answers"] = json!(wrong.is_empty());
            document["problems"] = json!(wrong);
        }
        document
    }

    fn show(&self, ping: Option<&Vec<String>>, out: &Out) {
        let about = match &self.reference {
            Some(reference) => format!("of `{reference}`, which {} names", self.agents.join(", ")),
            None => "of a reference that no prompt names".to_owned(),
        };
        let name = out.paint(BOLD, &self.skill.front.name);
        out.line(format!("{name}  {}", out.paint(DIM, format!("{about}; {}", self.skill.file.display()))));
        out.line(format!("  {}", self.skill.front.description));
        if let Some(allowed) = &self.skill.front.allowed_tools {
            out.line(out.paint(DIM, format!("  allows {}", allowed.join(", "))));
        }
        if self.skill.has_scripts {
            out.line(out.paint(DIM, "  has scripts"));
        }
        match ping {
            Some(wrong) if wrong.is_empty() => out.line(format!("  {}", out.paint(GREEN, "answers"))),
            Some(wrong) => wrong.iter().for_each(|why| out.line(format!("  {} {why}", out.paint(RED, "does not:")))),
            None => {}
        }
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

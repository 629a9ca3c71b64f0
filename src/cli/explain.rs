//! `explain CODE`: what a diagnostic means, an example that causes it, its cure.

use serde_json::json;

use crate::diag::{codes, suggest};

use super::args::ExplainArgs;
use super::output::{BOLD, CYAN};
use super::{Exit, Fault, Out};

/// Prints the page of a code, or the list of all codes.
pub(super) fn explain(args: &ExplainArgs, out: &Out) -> Result<Exit, Fault> {
    let Some(name) = &args.code else {
        return list(out);
    };
    let name = name.trim_matches(['[', ']', '`']);
    let Some(code) = codes::find(name) else {
        let mut fault = Fault::wrong(format!("there is no diagnostic `{name}`"));
        if let Some(near) = suggest::nearest(name, codes::CODES.iter().map(|code| code.name)).first() {
            fault = fault.help(format!("did you mean `{near}`?"));
        }
        return Err(fault.help("`agent-run explain` lists them all"));
    };
    if out.json {
        out.document(&json!({"code": code.name, "summary": code.summary, "page": code.page}));
    } else {
        out.line(styled(code.page, out));
    }
    Ok(Exit::Done)
}

fn list(out: &Out) -> Result<Exit, Fault> {
    if out.json {
        let all: Vec<_> = codes::CODES.iter().map(|code| json!({"code": code.name, "summary": code.summary})).collect();
        out.document(&all);
        return Ok(Exit::Done);
    }
    let width = codes::CODES.iter().map(|code| code.name.len()).max().unwrap_or(0);
    for code in codes::CODES {
        out.line(format!("{}  {}", out.paint(BOLD, format!("{:width$}", code.name)), code.summary));
    }
    Ok(Exit::Done)
}

/// Markdown as a terminal shows it: headings bold, code blocks indented and colored.
fn styled(page: &str, out: &Out) -> String {
    let mut in_code = false;
    let mut lines = Vec::new();
    for line in page.trim_end().lines() {
        if line.starts_with("```") {
            in_code = !in_code;
            continue;
        }
        lines.push(match line.trim_start_matches('#').trim_start() {
            _ if in_code => format!("    {}", out.paint(CYAN, line)).trim_end().to_owned(),
            heading if heading.len() < line.len() && line.starts_with('#') => out.paint(BOLD, heading),
            _ => line.to_owned(),
        });
    }
    lines.join("\n")
}
